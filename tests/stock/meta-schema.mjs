// Prints the published meta-schema of OpenRPC documents, and the one of JSON Schema that it refers to.
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const { openrpcDocument } = require("@open-rpc/meta-schema");
const { jsonSchema } = require("@json-schema-tools/meta-schema");
console.log(JSON.stringify([openrpcDocument, jsonSchema]));
