"""Ray: the engine that computes units on a cluster. Importing this package does not import ray."""
