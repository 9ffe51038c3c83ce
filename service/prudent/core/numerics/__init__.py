"""Numerical methods: Newton, trust region, Cholesky. They know no bandits."""
