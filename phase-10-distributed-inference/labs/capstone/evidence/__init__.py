"""Given: how recorded evidence is read, and how variants of it are simulated."""
