"""The catalogue: one file a check, one folder a family, the id is the path."""

if __name__ != "ddpcheck.checks":
    raise ImportError("import the catalogue as ddpcheck.checks, not as " + __name__)
