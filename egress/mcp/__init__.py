"""A sandbox as tools for programs that speak the Model Context Protocol."""
