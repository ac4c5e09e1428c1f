"""The page of the format html: what its sections show, its plots, and its templates."""
