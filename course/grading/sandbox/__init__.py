"""What keeps a process from doing harm: Landlock and seccomp on Linux, limits, an audit hook."""
