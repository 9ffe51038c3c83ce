"""Moving a campaign between deployments: the lines of the file, writing them and reading them."""
