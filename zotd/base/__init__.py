"""What every room stands on: paths, limits and settings."""
