"""One colour a segment, the same on the terminal and in charts; told apart by the colour-blind too."""

# After the palette of Okabe and Ito (2008), with shades of green for what the device computes.
COLOURS = {
    "roofline": "#00573f",
    "kernel inefficiency": "#009e73",
    "unfused traffic": "#7fd6b8",
    "kernels": "#009e73",
    "launch gaps": "#f0a202",
    "dispatch": "#0072b2",
    "allocation": "#8c6bb1",
    "python": "#d55e00",
    "data loading": "#a6761d",
    "synchronisation": "#cc79a7",
    "movement": "#e31a1c",
    "tail": "#999999",
    "active": "#009e73",
    "idle": "#bbbbbb",
}


def colour(name: str) -> str:
    return COLOURS.get(name, "#666666")
