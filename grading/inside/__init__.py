"""What a student's sandbox may see of this tool: this folder, mounted read-only, and nothing else."""
