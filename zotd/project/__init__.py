"""What a folder brings: skills, instructions, themes. All of it is read here and handed on as data."""
