"""One module a format: how an engine compares, and a file written so that its rule gives the model's answer."""
