"""A campaign on its way from one deployment to another: the file's lines, what writes them and what reads them."""
