"""stub for now."""
def add_parser(commands):
    p = commands.add_parser("bench"); p.set_defaults(handler=lambda a: 0)
