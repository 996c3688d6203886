// A widget of a lesson, moved without a kernel: each setting of its controls has a stored picture.
// The page says which in a <div class="course-widget">, right behind the cell with the picture.

function playWidget(place) {
  const { controls, first, states } = JSON.parse(place.querySelector("script").textContent);
  const picture = pictureBefore(place);
  if (!picture || controls.length === 0) return;
  const folder = place.dataset.pictures;
  const chosen = [...states[first].settings];

  // What control `at` can show, given what those before it show.
  const possible = (at) => [
    ...new Set(
      states
        .filter((state) => chosen.slice(0, at).every((setting, i) => state.settings[i] === setting))
        .map((state) => state.settings[at])
    ),
  ];

  const row = document.createElement("div");
  row.className = "course-widget-controls";
  const parts = controls.map((control, at) => {
    const part = control.kind === "slider" ? slider() : choice();
    const label = document.createElement("label");
    label.append(control.description, " ", ...part.elements);
    row.append(label);
    part.input.addEventListener("input", () => {
      chosen[at] = part.setting();
      show();
    });
    return part;
  });
  const words = document.createElement("p");
  words.setAttribute("role", "status");
  words.textContent = states[first].words;
  const link = picture.closest("a"); // to the stored picture in its full size
  (link ?? picture).before(row);
  (link ?? picture).after(words);

  function show() {
    parts.forEach((part, at) => {
      const settings = possible(at);
      if (!settings.includes(chosen[at])) chosen[at] = nearest(settings, chosen[at]);
      part.offer(settings, chosen[at]);
    });
    const state = states.find((one) => one.settings.every((setting, i) => setting === chosen[i]));
    picture.src = `${folder}/${state.picture}`;
    picture.alt = state.words;
    if (link) link.href = picture.src;
    words.textContent = state.words;
  }

  // A picture that is already here appears at once.
  row.addEventListener(
    "pointerenter",
    () => states.forEach((state) => (new Image().src = `${folder}/${state.picture}`)),
    { once: true }
  );
  parts.forEach((part, at) => part.offer(possible(at), chosen[at]));
}

function slider() {
  const input = Object.assign(document.createElement("input"), { type: "range", min: 0, step: 1 });
  const output = document.createElement("output");
  let offered = [];
  return {
    input,
    elements: [input, output],
    setting: () => offered[input.value],
    offer(settings, setting) {
      offered = settings;
      input.max = settings.length - 1;
      input.value = settings.indexOf(setting);
      input.setAttribute("aria-valuetext", setting);
      output.textContent = setting;
    },
  };
}

function choice() {
  const input = document.createElement("select");
  return {
    input,
    elements: [input],
    setting: () => input.value,
    offer(settings, setting) {
      input.replaceChildren(...settings.map((one) => new Option(one, one)));
      input.value = setting;
    },
  };
}

// The last of the settings that are not above the wanted one, where they are numbers.
function nearest(settings, wanted) {
  const below = settings.filter((setting) => Number(setting) <= Number(wanted));
  return below.length ? below[below.length - 1] : settings[0];
}

function pictureBefore(place) {
  let cell = place.previousElementSibling;
  while (cell && !cell.querySelector("img")) cell = cell.previousElementSibling;
  const pictures = cell ? cell.querySelectorAll("img") : [];
  return pictures[pictures.length - 1];
}

window.addEventListener("DOMContentLoaded", () =>
  document.querySelectorAll(".course-widget").forEach(playWidget)
);
