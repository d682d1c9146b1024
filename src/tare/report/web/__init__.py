"""The report: one page that holds everything it needs. Its charts are drawn by plotly's cartesian bundle (MIT)."""
