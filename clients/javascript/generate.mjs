// Writes src/schema.ts, the types of what this client sends and receives, from a running service's /openapi.json:
// npm run generate -- http://127.0.0.1:8000
import { writeFile } from "node:fs/promises";
import openapiTS, { astToString } from "openapi-typescript";

const ROOTS = [
  "EventReply",
  "EventRequest",
  "ReportReply",
  "RewardReply",
  "RewardRequest",
  "SelectReply",
  "SelectRequest",
  "StoredDecisionReply",
];
const PREFIX = "#/components/schemas/";
const HEADER = "// Generated from the service's /openapi.json by `npm run generate`: not to be edited.\n\n";

const url = process.argv[2] ?? "http://127.0.0.1:8000";
const { openapi, info, components } = await (await fetch(`${url}/openapi.json`)).json();

const schemas = {};
function reach(name) {
  if (name in schemas) return;
  schemas[name] = JSON.parse(JSON.stringify(components.schemas[name]), (key, value) =>
    // titles only repeat the names
    key === "title" && typeof value === "string" ? undefined : value,
  );
  JSON.stringify(schemas[name], (key, value) => {
    if (key === "$ref") reach(value.slice(PREFIX.length));
    return value;
  });
}
ROOTS.forEach(reach);

const description = { openapi, info, paths: {}, components: { schemas } };
const nodes = await openapiTS(description, { alphabetize: true, defaultNonNullable: false });
await writeFile(new URL("src/schema.ts", import.meta.url), HEADER + astToString(nodes));
