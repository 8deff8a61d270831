"""What is measured, against what. `python -m bench` compares seconds, `python -m bench.ratchet` counts."""
