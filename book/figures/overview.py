"""The guide's and the deep dive's diagrams."""

from labkit.svg import SERIES, Drawing


def five_ways():
    """What each rank holds under TP, PP, DP, EP and CP: layers across, width down."""
    d = Drawing(700, 250)
    names = ("TP", "PP", "DP", "EP", "CP")
    subtitles = ("inside a layer", "by layers", "by requests", "by experts", "by tokens")
    crosses = (
        "sums, twice per layer",
        "one activation per cut",
        "nothing (inference)",
        "tokens, there and back",
        "keys and values",
    )
    for k, name in enumerate(names):
        x = 12 + k * 138
        d.text(x + 58, 22, name, "fg", size=17, extra="bold")
        d.text(x + 58, 42, subtitles[k], "muted", size=12)
        if name == "TP":
            for layer in range(4):
                for half in range(2):
                    d.rect(x + 10 + half * 48, 60 + layer * 32, 48, 26, SERIES[half], "edge")
        elif name == "PP":
            for layer in range(4):
                d.rect(x + 10, 60 + layer * 32, 96, 26, SERIES[layer // 2], "edge")
        elif name == "DP":
            for copy in range(2):
                for layer in range(4):
                    d.rect(x + 10 + copy * 54, 60 + layer * 32, 42, 26, SERIES[copy], "edge")
        elif name == "EP":
            for layer in range(4):
                if layer % 2:
                    for expert in range(4):
                        d.rect(
                            x + 10 + expert * 24,
                            60 + layer * 32,
                            24,
                            26,
                            SERIES[expert // 2],
                            "edge",
                        )
                else:
                    d.rect(x + 10, 60 + layer * 32, 96, 26, "idle", "edge")
        else:
            for token in range(8):
                d.rect(x + 10 + token * 12, 60, 12, 122, SERIES[token // 4], "edge")
        d.text(x + 58, 206, "crosses:", "muted", size=12)
        d.text(x + 58, 224, crosses[k], "fg", size=12)
    alt = (
        "Five ways to divide a model between two ranks. Tensor parallelism cuts every layer in "
        "two; sums "
        "cross twice per layer. Pipeline parallelism gives each rank half of the layers; one "
        "activation "
        "crosses per cut. Data parallelism gives each rank a whole copy and half of the "
        "requests; in "
        "inference nothing crosses. Expert parallelism divides the experts of the sparse layers; "
        "tokens "
        "travel to their experts and back. Context parallelism divides the tokens of a sequence; "
        "keys and "
        "values cross."
    )
    return d.figure(
        alt,
        "Blue is rank 0, orange is rank 1, grey is on both. Layers run downwards.",
        min_width=640,
    )


def token_path():
    """One decode step on two ranks of vLLM, and where they meet."""
    steps = (
        ("EngineCore", "collective_rpc: one message for all ranks", None),
        ("embedding", "each rank looks up its rows of the vocabulary", "all-reduce"),
        ("qkv_proj", "column-parallel: this rank's heads", None),
        ("attention", "its heads, its KV cache", None),
        ("o_proj", "row-parallel: a partial sum", "all-reduce"),
        ("gate_up_proj", "column-parallel: this rank's half", None),
        ("down_proj", "row-parallel: a partial sum", "all-reduce"),
        ("lm_head", "its rows of the vocabulary", "all-gather"),
        ("sampler", "one rank answers the engine", None),
    )
    d = Drawing(720, 52 + len(steps) * 42)
    d.text(170, 22, "rank 0", "c0", size=14, extra="bold")
    d.text(360, 22, "rank 1", "c1", size=14, extra="bold")
    for i, (name, what, meet) in enumerate(steps):
        y = 34 + i * 42
        for rank, x in ((0, 100), (1, 290)):
            ghost = name in ("EngineCore", "sampler") and rank == 1
            d.rect(x, y, 140, 30, "idle" if ghost else SERIES[rank], "box", 5)
            label = "waits" if ghost and name == "EngineCore" else "discards" if ghost else name
            d.text(
                x + 70,
                y + 20,
                label,
                "fg" if ghost else "bg",
                size=13,
                extra="" if ghost else "bold",
            )
            if i + 1 < len(steps):
                d.line([(x + 70, y + 30), (x + 70, y + 42)], "muted", "thin")
        if meet:
            d.line([(242, y + 15), (288, y + 15)], "c2", "thick")
            d.text(450, y + 13, meet, "c2", "start", 13, "bold")
            d.text(450, y + 28, what, "muted", "start", 11)
        else:
            d.text(450, y + 20, what, "muted", "start", 11)
    top, bottom = 34 + 2 * 42 - 6, 34 + 7 * 42 - 8
    d.line([(90, top), (80, top), (80, bottom), (90, bottom)], "muted", "thin")
    d.text(72, (top + bottom) / 2, "every layer", "muted", "end", 12)
    alt = (
        "One decode step on two ranks. The engine sends one message. Both ranks look up "
        "embeddings and "
        "all-reduce. In every layer they run their own heads and meet in an all-reduce after "
        "o_proj, run "
        "their half of the MLP and meet in an all-reduce after down_proj. The logits are "
        "all-gathered, and "
        "one rank answers."
    )
    return d.figure(alt, "Green bars are the only places where the ranks meet.", min_width=600)
