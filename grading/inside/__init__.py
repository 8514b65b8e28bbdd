"""What a student's sandbox sees of this tool: this folder, read-only, and nothing else."""
