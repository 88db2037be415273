// Elements, made of text only: names of files and clients may hold anything.

const SVG = 'http://www.w3.org/2000/svg';

/** Element of the page by its id. */
const byId = (id) => document.getElementById(id);

/** An element with attributes and children; a child may be text. */
function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** An element of a drawing. */
function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Sets text, and leaves the page alone where it is the same. */
function setText(of, text) {
  if (of.textContent !== text) of.textContent = text;
}

/** Sets text with the number that it stands for. */
function setNumber(of, number, text) {
  const value = number === null || number === undefined ? '' : String(number);
  if (of.dataset.value !== value) of.dataset.value = value;
  setText(of, text);
}
