"use strict";
(() => {
  const WIDE = 10000, TALL = 1000;
  const axes = JSON.parse(document.getElementById("axes")?.textContent || "[]");
  const make = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const plain = value => {
    const size = Math.abs(value);
    if (size !== 0 && (size >= 1e6 || size < 1e-3)) {
      const [mantissa, exponent] = value.toExponential(2).split("e");
      return `${mantissa} · 10${[...String(+exponent)].map(c => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]).join("")}`;
    }
    return String(+value.toPrecision(6));
  };

  // The vertices of a strip, read back from its path: places along the axis and heights.
  const vertices = strip => {
    if (strip.vertices) return strip.vertices;
    const path = strip.querySelector(".values").getAttribute("d");
    let points;
    if (strip.classList.contains("sticks")) {
      points = [...path.matchAll(/M(\d+) \d+V(\d+)/g)].map(found => [+found[1], +found[2]]);
    } else {
      const steps = path.match(/-?\d+/g).map(Number);
      let [x, y] = steps;
      points = [];
      for (let i = 2; i < steps.length; i += 2) points.push([x += steps[i], y += steps[i + 1]]);
      points.pop(); // back at the axis
    }
    return strip.vertices = points;
  };

  const axisValue = (axis, place) => {
    const part = place / WIDE;
    return axis.log ? axis.low * Math.pow(axis.high / axis.low, part) : axis.low + part * (axis.high - axis.low);
  };
  const placeOf = (axis, value) => WIDE * (axis.log
    ? Math.log(value / axis.low) / Math.log(axis.high / axis.low)
    : (value - axis.low) / (axis.high - axis.low));
  const nearest = (sorted, value) => {
    let low = 0, high = sorted.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (sorted[middle] <= value) low = middle; else high = middle;
    }
    return value - sorted[low] <= sorted[high] - value ? low : high;
  };
  const axisText = (axis, place) => {
    let value = axisValue(axis, place);
    if (axis.x) {
      const i = nearest(axis.x, value);
      if (axis.texts) return `${axis.name} ${axis.texts[i]}`;
      value = axis.x[i];
    } else value = +value.toPrecision(5);
    return `${axis.name} ${plain(value)}${axis.unit ? " " + axis.unit : ""}`;
  };

  // The part of the axis that is in view: all of it, unless it was zoomed.
  const view = strip => strip.view || [0, WIDE];

  const show = (strip, place) => {
    const axis = axes[strip.dataset.side], points = vertices(strip);
    if (!axis || !points.length) return;
    const i = nearest(points.map(point => point[0]), place);
    let [x, y] = points[i];
    // Between two vertices at one height the line is flat: read the value where the pointer is.
    const other = points[i + (place > x ? 1 : -1)];
    if (!strip.classList.contains("sticks") && other && other[1] === y && axis.x) {
      x = clamp(placeOf(axis, axis.x[nearest(axis.x, axisValue(axis, place))]), 0, WIDE);
    }
    strip.index = i;
    const [from, to] = view(strip);
    const at = clamp(100 * (x - from) / (to - from), 0, 100);
    if (!strip.cursor) {
      strip.cursor = make("i", { className: "cursor" });
      strip.output = make("output", { className: "readout" });
      strip.querySelector(".plot").append(strip.cursor, strip.output);
    }
    strip.cursor.style.left = `${at}%`;
    strip.output.textContent = `${axisText(axis, x)}: ${plain(+((TALL - y) / strip.dataset.scale).toPrecision(3))}`;
    strip.output.classList.toggle("before", at > 50);
    strip.output.style.left = `${at}%`;
    strip.classList.add("reading");
  };

  // Zoom along the axis, in the large view.
  const niceStep = width => {
    const size = Math.pow(10, Math.floor(Math.log10(width / 5)));
    return size * [1, 2, 5, 10].find(factor => width / (factor * size) <= 6);
  };
  const zoom = (strip, factor, middle) => {
    const axis = axes[strip.dataset.side];
    if (!axis) return;
    let [from, to] = view(strip);
    const width = clamp((to - from) * factor, WIDE / 500, WIDE);
    from = clamp(middle - (middle - from) * width / (to - from), 0, WIDE - width);
    to = from + width;
    strip.view = [from, to];
    strip.querySelector("svg").setAttribute("viewBox", `${from} 0 ${width} ${TALL}`);
    for (const peak of strip.querySelectorAll(".peak")) {
      peak.dataset.at ||= parseFloat(peak.style.left);
      const at = (peak.dataset.at * WIDE / 100 - from) / width;
      peak.style.left = `${100 * at}%`;
      peak.hidden = at < 0 || at > 1;
    }
    if (!axis.texts) ticks(strip, axis, from, to);
  };
  const ticks = (strip, axis, from, to) => {
    const low = axisValue(axis, from), high = axisValue(axis, to), values = [];
    if (axis.log && high / low > 8) {
      for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
        values.push(...[1, 2, 5].map(factor => factor * Math.pow(10, power)));
      }
    } else {
      const step = niceStep(high - low);
      for (let i = Math.ceil(low / step); i * step <= high; i++) values.push(+(i * step).toPrecision(10));
    }
    strip.querySelector(".ticks").replaceChildren(...values.filter(v => v >= low && v <= high).map(value => {
      const tick = make("span", { textContent: plain(value) });
      tick.style.left = `${100 * (placeOf(axis, value) - from) / (to - from)}%`;
      return tick;
    }));
  };

  const pointed = (strip, event) => {
    const box = strip.querySelector(".plot").getBoundingClientRect(), [from, to] = view(strip);
    return from + (to - from) * clamp((event.clientX - box.left) / box.width, 0, 1);
  };
  const stripOf = event => event.target instanceof Element ? event.target.closest(".strip") : null;
  document.addEventListener("pointermove", event => {
    const strip = stripOf(event);
    document.querySelectorAll(".strip.reading").forEach(other => {
      if (other !== strip && other !== document.activeElement) other.classList.remove("reading");
    });
    if (strip) show(strip, pointed(strip, event));
  });
  document.addEventListener("focusout", event => stripOf(event)?.classList.remove("reading"));
  document.addEventListener("keydown", event => {
    const strip = stripOf(event);
    if (!strip) return;
    const points = vertices(strip), i = strip.index ?? -1;
    const next = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: points.length - 1 }[event.key];
    if (next !== undefined && points.length) {
      show(strip, points[clamp(next, 0, points.length - 1)][0]);
    } else if (dialog.open && "+-".includes(event.key)) {
      zoom(strip, event.key === "+" ? 0.7 : 1 / 0.7, points[Math.max(i, 0)]?.[0] ?? WIDE / 2);
    } else return;
    event.preventDefault();
  });

  // A large view of a component or a figure: the element itself moves there and back.
  const dialog = make("dialog", { className: "large" });
  const close = make("button", { type: "button", className: "close", textContent: "Close" });
  const hint = make("p", { className: "hint" });
  let moved, place;
  dialog.append(close, hint);
  document.body.append(dialog);
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => {
    moved.querySelectorAll(".strip").forEach(strip => zoom(strip, WIDE, WIDE / 2));
    place.replaceWith(moved);
    moved.querySelector("button.enlarge")?.focus();
  });
  const enlarge = element => {
    moved = element;
    place = document.createComment("");
    element.replaceWith(place);
    hint.textContent = element.querySelector(".strip") ? "Scroll over a line, or press + and −, to zoom." : "";
    dialog.append(element);
    dialog.showModal();
  };
  dialog.addEventListener("wheel", event => {
    const strip = stripOf(event);
    if (!strip) return;
    event.preventDefault();
    zoom(strip, event.deltaY > 0 ? 1.25 : 0.8, pointed(strip, event));
    show(strip, pointed(strip, event));
  }, { passive: false });
  document.querySelectorAll("article.component, figure").forEach(element => {
    const name = element.querySelector("h3")?.firstChild.textContent.trim() || "figure";
    const button = make("button", { type: "button", className: "enlarge", textContent: "Enlarge" });
    button.setAttribute("aria-label", `Enlarge ${name}`);
    button.addEventListener("click", () => enlarge(element));
    (element.querySelector("h3") || element).append(button);
  });

  // A link to a component that is folded away opens its group.
  const unfold = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    const folded = target && target.closest("details");
    if (folded) { folded.open = true; target.scrollIntoView(); }
  };
  addEventListener("hashchange", unfold);
  unfold();
})();
