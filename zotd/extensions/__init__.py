"""Extensions: found on disk, run as processes, asked through one door."""
