"""Processes: started, limited, watched, ended."""
