'use strict';

// Renders /openapi.json. Everything is put in as text, never as HTML.
function node(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function resolve(document_, schema) {
  if (schema && schema.$ref) return document_.components.schemas[schema.$ref.split('/').pop()] || {};
  return schema || {};
}

// example draws the shape of a schema as JSON with comments in place of values.
function example(document_, schema, depth) {
  const name = schema && schema.$ref ? schema.$ref.split('/').pop() : '';
  const real = resolve(document_, schema);
  const indent = '  '.repeat(depth + 1);
  if (real.properties && depth < 4) {
    const lines = Object.entries(real.properties).map(([key, value]) => {
      const note = (value.description || '').split('\n')[0];
      return indent + JSON.stringify(key) + ': ' + example(document_, value, depth + 1) + (note ? '  // ' + note : '');
    });
    return '{\n' + lines.join('\n') + '\n' + '  '.repeat(depth) + '}';
  }
  if (real.oneOf) return real.oneOf.map((one) => example(document_, one, depth)).join('\nor, of a stream\n');
  if (real.type === 'array') return '[' + example(document_, real.items, depth) + ']';
  if (real.enum) return real.enum.join(' | ');
  return (real.format || real.type || name || 'any');
}

function content(document_, title, body) {
  const all = [];
  for (const [media, value] of Object.entries((body && body.content) || {})) {
    all.push(node('h3', {}, title + ' ' + media));
    if (value.schema) all.push(node('pre', {}, example(document_, value.schema, 0)));
  }
  return all;
}

function operation(document_, path, method, op) {
  const box = node('details', { 'data-words': (method + ' ' + path + ' ' + (op.summary || '') + ' ' + (op.description || '')).toLowerCase() });
  box.append(node('summary', {}, node('span', { class: 'method ' + method }, method.toUpperCase()), node('code', {}, path),
    node('span', { class: 'what' }, op.summary || '')));
  if (op.description) box.append(node('p', {}, op.description));
  if ((op.parameters || []).length > 0) {
    box.append(node('h3', {}, 'Parameters'), node('table', {}, ...op.parameters.map((p) => node('tr', {},
      node('td', {}, node('code', {}, p.name), ' ' + p.in + (p.required ? ', required' : '')),
      node('td', {}, (p.description || '') + ' ' + ((p.schema && (p.schema.format || p.schema.type)) || ''))))));
  }
  box.append(...content(document_, 'Body', op.requestBody));
  for (const [code, response] of Object.entries(op.responses || {})) {
    if (code !== 'default') box.append(...content(document_, 'Answer ' + code, response));
  }
  return box;
}

async function main() {
  const routes = document.getElementById('routes');
  const answer = await fetch('/openapi.json');
  if (!answer.ok) throw new Error('GET /openapi.json: ' + answer.status);
  const api = await answer.json();
  const byTag = new Map();
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, op] of Object.entries(methods)) {
      const tag = (op.tags || ['Other'])[0];
      if (!byTag.has(tag)) byTag.set(tag, []);
      byTag.get(tag).push(operation(api, path, method, op));
    }
  }
  const about = new Map((api.tags || []).map((tag) => [tag.name, tag.description]));
  routes.replaceChildren();
  for (const [tag, all] of byTag) {
    routes.append(node('section', {}, node('h2', {}, tag), node('p', {}, about.get(tag) || ''), ...all));
  }
  routes.append(node('section', {}, node('h2', {}, 'Errors'),
    node('p', {}, 'Every error has this shape. Reasons are stable; messages are for people.'),
    node('pre', {}, example(api, { $ref: '#/components/schemas/sq.Error' }, 0))));
  const filter = document.getElementById('filter');
  filter.addEventListener('input', () => {
    const words = filter.value.toLowerCase().split(/\s+/);
    for (const box of routes.querySelectorAll('details')) {
      box.hidden = !words.every((word) => box.dataset.words.includes(word));
    }
  });
}

main().catch((error) => { document.getElementById('routes').textContent = 'The API cannot be shown: ' + error.message; });
