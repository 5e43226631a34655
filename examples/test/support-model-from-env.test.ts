// Which model the examples use: the scripted one, a real one, or a refusal that says what to do.
import { describe, expect, it } from "vitest";
import { readExampleEnvironment } from "../src/support/env.ts";
import { chooseModel, modelFromEnv } from "../src/support/model-from-env.ts";
import { ScriptedModel } from "../src/support/scripted-model.ts";

const scripted = (): ScriptedModel => new ScriptedModel({ turns: [{ text: "scripted" }] });

class ChatAnthropic extends ScriptedModel {
  constructor(fields: { readonly model: string }) {
    super({ turns: [{ text: "real" }], modelName: fields.model });
  }
}

async function refusal(named: string, importPackage?: (specifier: string) => Promise<unknown>): Promise<unknown> {
  const options = importPackage === undefined ? { scripted, named } : { scripted, named, importPackage };
  return await modelFromEnv(options).catch((thrown: unknown) => thrown);
}

describe("the model's name", () => {
  it.each([undefined, "", "  ", "scripted"])("%j means the script", (named) => {
    expect(chooseModel(named)).toEqual({ state: "scripted" });
  });

  it("keeps the colons of a model's own name", () => {
    expect(chooseModel("bedrock:anthropic.claude-x-v1:0")).toMatchObject({
      provider: "bedrock",
      modelName: "anthropic.claude-x-v1:0",
    });
  });

  it.each(["anthropic", "anthropic:", "claude-x", "nobody:model", ":model"])(
    "%s is refused with the form to write",
    async (named) => {
      expect(await refusal(named)).toMatchObject({
        code: "MODEL_NAME_INVALID",
        message: expect.stringContaining("provider:model"),
      });
    },
  );

  it("is read from REPRISE_MODEL", () => {
    expect(readExampleEnvironment({ REPRISE_MODEL: "openai:x" })).toEqual({ model: "openai:x" });
    expect(readExampleEnvironment({})).toEqual({ model: undefined });
  });
});

describe("the model", () => {
  it("is the scripted one when none is named", async () => {
    const chosen = await modelFromEnv({ scripted, named: "" });
    expect(chosen.name).toBe("scripted");
    expect((await chosen.model.invoke("hello")).text).toBe("scripted");
  });

  it("is made from the provider's package with the name that was asked for", async () => {
    const asked: string[] = [];
    const importPackage = async (specifier: string): Promise<unknown> => {
      asked.push(specifier);
      return { ChatAnthropic };
    };
    const chosen = await modelFromEnv({ scripted, named: "anthropic:claude-x", importPackage });
    expect(asked).toEqual(["@langchain/anthropic"]);
    expect(chosen.name).toBe("anthropic:claude-x");
    expect(chosen.model).toMatchObject({ modelName: "claude-x" });
  });

  it("is refused with the line that installs a missing package", async () => {
    const missing = Object.assign(new Error("Cannot find package '@langchain/groq' imported from x"), {
      code: "ERR_MODULE_NOT_FOUND",
    });
    const error = await refusal("groq:some-model", async () => await Promise.reject(missing));
    expect(error).toMatchObject({
      code: "MODEL_PACKAGE_MISSING",
      message: expect.stringContaining("npm install --no-save @langchain/groq"),
      cause: missing,
    });
  });

  it("is refused otherwise when the package is there and something it wants is not", async () => {
    const missing = Object.assign(new Error("Cannot find package 'groq-sdk' imported from x"), {
      code: "ERR_MODULE_NOT_FOUND",
    });
    const error = await refusal("groq:some-model", async () => await Promise.reject(missing));
    expect(error).toMatchObject({ code: "MODEL_PACKAGE_UNUSABLE", cause: missing });
  });

  it.each<[string, object]>([
    ["exports no such class", {}],
    ["makes something that is no chat model of ours", { ChatAnthropic: class {} }],
    [
      "throws for want of its key",
      {
        ChatAnthropic: class {
          constructor() {
            throw new Error("API key not found");
          }
        },
      },
    ],
  ])("is refused when the package %s", async (_name, exports) => {
    expect(await refusal("anthropic:claude-x", async () => exports)).toMatchObject({ code: "MODEL_PACKAGE_UNUSABLE" });
  });
});
