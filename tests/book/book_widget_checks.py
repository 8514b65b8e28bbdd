"""What is asked of the interactive figures: the labs' arithmetic, and an answer to every key."""

import itertools

import pytest
from labbook.labs import model as shape_of
from labbook.labs import solution

PLACES = {
    "pipeline-bubble": "lab-04.html",
    "communication-bill": "lab-03-bill.html",
    "sharding-explorer": "lab-01.html",
}


def ask(page, widget, function, arguments):
    """function(*arguments) of the widget's class, for a list of argument lists."""
    return page.evaluate(
        "([name, f, all]) => "
        "{ const c = customElements.get(name); return all.map(a => c[f](...a)); }",
        [widget, function, arguments],
    )


def expect_bubbles(page):
    """Every bubble and every peak of held activations equals lab 04's."""
    lab = solution("lab-04")
    grid = list(
        itertools.product(range(1, 9), (*range(1, 33, 3), 63, 64), ("forward", "gpipe", "1f1b"))
    )
    answers = ask(page, "pipeline-bubble", "compute", grid)
    assert len(answers) == len(grid) == 312
    for (p, m, schedule), answer in zip(grid, answers, strict=True):
        if schedule == "forward":
            expected = lab.grid_bubble(lab.schedule_grid(p, m))
            assert expected == lab.bubble_fraction(p, m)
        else:
            order = {"gpipe": lab.gpipe_order, "1f1b": lab.one_f_one_b_order}[schedule](p, m)
            expected = lab.grid_bubble(lab.replay(order))
            assert answer["held"] == max(lab.peak_live_activations(order)), (p, m, schedule)
        assert answer["bubble"] == pytest.approx(float(expected), abs=1e-12), (p, m, schedule)


def expect_bills(page):
    """Every bill equals lab 03's, for all its GPUs and links, best and worst."""
    lab = solution("lab-03")
    data = page.evaluate("document.querySelector('communication-bill').data")
    assert set(data["gpus"]) == set(lab.GPUS) and set(data["links"]) == set(lab.LINKS)
    cases = []
    achieved = lab.ACHIEVED_BANDWIDTH, lab.ACHIEVED_ARITHMETIC
    assert (data["achieved_bandwidth"], data["achieved_arithmetic"]) == achieved
    for model, gpu, link, tp, batch, side in itertools.product(
        data["models"].values(), lab.GPUS, lab.LINKS, (1, 2, 8, 16), (1, 64, 512, 4096), (0, 1)
    ):
        bounds = lab.LINKS[link]
        given = {
            "tp": tp,
            "batch": batch,
            "memory_bytes_per_s": lab.GPUS[gpu]["memory_bytes_per_s"] * lab.ACHIEVED_BANDWIDTH,
            "flops_per_s": lab.GPUS[gpu]["flops_per_s"] * lab.ACHIEVED_ARITHMETIC,
            "c_s": bounds["c_s"][side],
            "a_s": bounds["a_s"][side],
            "busbw_bytes_per_s": bounds["busbw_bytes_per_s"][1 - side],
        }
        cases.append(model | given)
    answers = ask(page, "communication-bill", "bill", [[case] for case in cases])
    assert len(cases) > 1000
    for case, bill in zip(cases, answers, strict=True):
        for name, value in _bill(lab, case).items():
            assert bill[name] == pytest.approx(value, rel=1e-9, abs=1e-15), (name, case)


def _bill(lab, case):
    """By lab 03's functions."""
    messages, payload = lab.step_messages(
        case["num_layers"], case["batch"], case["hidden_size"], case["element_bytes"]
    )
    constants = (case["c_s"], case["a_s"], case["busbw_bytes_per_s"])
    message_s = lab.ring_all_reduce_s(case["tp"], payload, *constants)
    weights, tp, rate = case["weight_bytes"], case["tp"], case["memory_bytes_per_s"]
    work = (case["batch"], case["flops_per_s"], case["element_bytes"])
    step_s = lab.step_s(weights, tp, rate, *work)
    paid, saved = lab.tensor_parallel_sides(weights, rate, tp, messages, message_s, *work)
    return {
        "messages": messages,
        "payload": payload,
        "weights_s": lab.decode_step_s(weights, tp, rate),
        "step_s": step_s,
        "share": lab.communication_share(messages, message_s, step_s),
        "paid_s": paid,
        "saved_s": saved,
        "latency_s": paid * lab.latency_share(case["tp"], payload, *constants),
        "crossover_bytes": lab.crossover_bytes(case["tp"], *constants),
    }


def expect_shards(page):
    """Per-rank bytes, KV bytes, legal sizes and refusals equal labs 01 and 02."""
    lab01, lab02 = solution("lab-01"), solution("lab-02")
    presets = page.evaluate("document.querySelector('sharding-explorer').presets")
    whole = shape_of("llama-3.1-8b")
    odd = [
        {"num_heads": 12, "num_kv_heads": 4, "head_dim": 40, "hidden_size": 480},
        {"num_heads": 7, "num_kv_heads": 1, "vocab_size": 500},
        {"num_heads": 8, "num_kv_heads": 3, "intermediate_size": 1023, "num_layers": 3},
        {"num_heads": 16, "num_kv_heads": 16, "vocab_size": 50257},
        {"num_heads": 6, "num_kv_heads": 2, "vocab_size": 65},
    ]
    shapes = [*presets.values(), *({**next(iter(presets.values())), **change} for change in odd)]
    cases = [[s, tp, size] for s in shapes for tp in range(1, 17) for size in (1, 2, 4)]
    refused = 0
    for (shape, tp, size), answer in zip(
        cases, ask(page, "sharding-explorer", "shard", cases), strict=True
    ):
        model = whole | shape | {"dtype_bytes": size, "embedding_width": shape["hidden_size"]}
        try:
            bytes_of_rank = lab02.rank_weights(model, tp)["parameters_bytes"]
        except ValueError:
            refused += 1
            assert answer["why"], (shape, tp)
            continue
        assert not answer["why"], (shape, tp, answer["why"])
        assert answer["rank_bytes"] == bytes_of_rank, (shape, tp, size)
        assert answer["whole_bytes"] == lab02.rank_weights(model, 1)["parameters_bytes"]
        assert answer["kv_bytes_per_token"] == lab02.kv_bytes_per_token(model, tp)
    assert refused > 30
    for shape, sizes in zip(
        shapes, ask(page, "sharding-explorer", "legal", [[s, 16] for s in shapes]), strict=True
    ):
        widths = [shape["intermediate_size"], lab02.padded_vocab(shape["vocab_size"])]
        heads = (shape["num_heads"], shape["num_kv_heads"])
        assert sizes == lab01.legal_tp_sizes(*heads, widths, 16)


EXPECT = {
    "pipeline-bubble": expect_bubbles,
    "communication-bill": expect_bills,
    "sharding-explorer": expect_shards,
}


def expect_keyboard(page, widget):
    """Every control is reached by Tab; every arrow changes the status and stays on the page."""
    url = page.url
    controls = page.locator(f"{widget} select:visible, {widget} input[type=range]:visible")
    assert controls.count() >= 2
    controls.first.focus()
    for i in range(controls.count()):
        control = controls.nth(i)
        focused = control.evaluate("e => e === document.activeElement")
        assert focused, f"Tab does not reach control {i} of {widget}"
        before = page.locator(widget).inner_text(), control.input_value()
        vertical = control.evaluate("e => e.tagName") == "SELECT"
        at_end = control.evaluate("e => e.max ? e.value === e.max : e.selectedIndex > 0")
        keys = ("ArrowUp", "ArrowDown") if vertical else ("ArrowLeft", "ArrowRight")
        page.keyboard.press(keys[0] if at_end else keys[1])
        assert control.input_value() != before[1], f"the arrow does nothing on control {i}"
        assert page.locator(widget).inner_text() != before[0], f"control {i} changes no text"
        page.keyboard.press("Tab")
    assert page.url == url, "an arrow key turned the page"
