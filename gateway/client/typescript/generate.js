// Makes src/document.ts of the OpenAPI document of a service:
//
//     node generate.js URL            writes it
//     node generate.js URL --check    fails if it is not that of the document
//
// Left out is what the client has no use for: operations outside of /v1, paths, errors, headers, examples.

import { readFile, writeFile } from 'node:fs/promises';

import openapiTS, { astToString } from 'openapi-typescript';

const [url, check] = process.argv.slice(2);
const response = await fetch(`${url}/openapi.json`);
if (!response.ok) throw new Error(`${url} answers ${response.status}`);
const document = await response.json();

const methods = ['get', 'put', 'post', 'patch', 'delete'];
for (const [path, item] of Object.entries(document.paths)) {
  if (!/^\/v1(\/|$)/.test(path)) delete document.paths[path];
  for (const method of methods) {
    const operation = item[method];
    if (!operation) continue;
    operation.responses = { 200: { description: '', content: operation.responses['200'].content } };
    operation.parameters = operation.parameters?.filter((p) => p.in === 'query').map(({ example, ...p }) => p);
    delete operation.description;
  }
}

// Schemas that are reached from there, and those of errors.
const { schemas } = document.components;
const reached = {};
const reach = (v) => {
  if (typeof v !== 'object' || v === null) return;
  delete v.examples;
  delete v.example;
  const name = typeof v.$ref === 'string' ? v.$ref.split('/').at(-1) : undefined;
  if (name !== undefined && !reached[name]) {
    reached[name] = schemas[name];
    reach(schemas[name]);
  }
  Object.values(v).forEach(reach);
};
reach(document.paths);
reach(['Error', 'Violation', 'ValidationError'].map((name) => ({ $ref: `#/components/schemas/${name}` })));
document.components = { schemas: reached };

const nodes = await openapiTS(document, { alphabetize: true, defaultNonNullable: false });
const kept = nodes.filter((node) => ['components', 'operations'].includes(node.name?.text));
const text = `// Made by generate.js of a service's /openapi.json: do not edit.\n\n${astToString(kept)}`;

const file = new URL('src/document.ts', import.meta.url);
if (check !== '--check') {
  await writeFile(file, text);
} else if (text !== await readFile(file, 'utf8')) {
  console.error('src/document.ts is not that of the document: npm run generate -- URL makes it anew');
  process.exitCode = 1;
}
