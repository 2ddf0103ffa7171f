"""The paper's table from finished runs: a block for each setup, a row for each method, means and spreads over seeds."""
