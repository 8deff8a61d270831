"""The vocabulary: what travels between models, extensions, clients and us. No behaviour lives here."""
