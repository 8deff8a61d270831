"""Models: one adapter an API, the scripted model, the embedded one, and the choice among them."""
