"""What lasts: sessions on disk, their picture, and the events somebody may have missed."""
