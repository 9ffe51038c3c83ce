"""The rules that make a requested configuration a resolved one."""
