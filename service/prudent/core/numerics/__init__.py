"""Numerical methods: Newton, and positive definite matrices. They know no bandits."""
