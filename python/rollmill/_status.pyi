STATUS_TEXT: dict[int, str]
