"""Requests of the seven APIs, read as calls."""

from __future__ import annotations

import json

import pytest

from egress.inspect.llm.input_estimate import STORED_INPUT_TOKENS
from egress.inspect.llm.llm_call import LlmCall
from egress.inspect.llm.request_fields import MAX_LISTED_OBJECTS, LlmRequestError
from egress.inspect.llm.request_shapes import (
    FETCH_TOOL,
    MAX_MODELS,
    MAX_SERVER_TOOLS,
    RequestTarget,
    read_call,
    read_target,
)
from egress.inspect.llm.usage import LlmApi
from egress.inspect.strict_json import read_strict_json

PATHS: dict[str, str] = {
    "gemini": "/v1beta/models/gemini-x:streamGenerateContent",
    "bedrock-converse": "/model/m/converse-stream",
    "bedrock-invoke": "/model/m/invoke",
}


def call_of(api: LlmApi, body: object, path: str = "") -> LlmCall:
    data = json.dumps(body).encode()
    target = read_target(api, path or PATHS.get(api, "/v1/x"))
    assert target is not None
    return read_call(api, target, read_strict_json(data), len(data))


def refusal_of(api: LlmApi, body: object, path: str = "") -> str:
    with pytest.raises(LlmRequestError) as raised:
        call_of(api, body, path)
    assert str(raised.value) == raised.value.unreadable.detail
    return raised.value.unreadable.code


def test_messages_of_anthropic() -> None:
    call = call_of(
        "anthropic", {"model": "claude-x", "max_tokens": 9, "stream": True, "service_tier": "auto"}
    )
    assert (call.models, call.max_output, call.is_streamed, call.tier) == (("claude-x",), 9, True, "")


def test_vector_13_a_fallback_is_a_model_that_the_call_can_reach() -> None:
    body = {
        "model": "a",
        "max_tokens": 5,
        "fallbacks": [{"model": "opus", "max_tokens": 700}, {"model": "a"}],
    }
    call = call_of("anthropic", body)
    assert (call.models, call.max_output) == (("a", "opus"), 700)


@pytest.mark.parametrize("fallbacks", [[{"model": "default"}], [{}], [{"model": 1}], "default", ["x"]])
def test_a_fallback_that_names_no_model_is_refused(fallbacks: object) -> None:
    code = refusal_of("anthropic", {"model": "a", "max_tokens": 5, "fallbacks": fallbacks})
    assert code in {"llm.model", "llm.shape"}


@pytest.mark.parametrize("model", [None, "", " a", "a b", "a\n", "\u00e9", "x" * 257, "a\u0000"])
def test_a_model_that_cannot_be_read_is_refused(model: str | None) -> None:
    assert refusal_of("anthropic", {"model": model, "max_tokens": 5}) == "llm.model"
    assert refusal_of("openai-responses", {"model": model, "prompt": {"id": "stored"}}) == "llm.model"


@pytest.mark.parametrize(
    ("api", "body"),
    [
        ("anthropic", {"model": "a", "Model": "b", "max_tokens": 1}),
        ("anthropic", {"MODEL": "a", "max_tokens": 1}),
        ("anthropic", {"model": "a", "maxTokens": 1}),
        ("openai-chat", {"model": "a", "max_tokens": 1, "max_completion_tokens": 2}),
        ("openai-chat", {"model": "a", "N": 8}),
        ("openai-responses", {"model": "a", "max_output_tokens": 1, "maxOutputTokens": 9}),
        ("gemini", {"generationConfig": {"maxOutputTokens": 1}, "generation_config": {"maxOutputTokens": 9}}),
        ("gemini", {"generationConfig": {"maxOutputTokens": 1, "max_output_tokens": 9}}),
        ("gemini", {"GenerationConfig": {"maxOutputTokens": 1}}),
        ("bedrock-converse", {"inferenceConfig": {"maxTokens": 1, "max_tokens": 9}}),
        ("bedrock-invoke", {"max_tokens": 1, "max_gen_len": 9}),
        ("bedrock-invoke", {"max_tokens": 1, "textGenerationConfig": {"maxTokenCount": 9}}),
        ("bedrock-invoke", {"max_tokens": 1, "maxTokens": 9}),
    ],
)
def test_vector_14_two_spellings_of_one_field_are_refused(api: LlmApi, body: object) -> None:
    assert refusal_of(api, body) == "llm.ambiguous"


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "9", [], 10**10])
def test_a_maximum_that_is_no_sensible_number_is_refused(count: object) -> None:
    assert refusal_of("anthropic", {"model": "a", "max_tokens": count}) == "llm.shape"
    assert refusal_of("openai-chat", {"model": "a", "n": count}) == "llm.shape"


@pytest.mark.parametrize(
    ("api", "body", "tools"),
    [
        (
            "anthropic",
            {"tools": [{"name": "x", "input_schema": {}}, {"type": "custom"}, {"type": "bash_20250124"}]},
            (),
        ),
        (
            "anthropic",
            {"tools": [{"type": "web_search_20250305"}, {"type": "code_execution_20250522"}]},
            ("web_search", "code_execution"),
        ),
        (
            "anthropic",
            {"mcp_servers": [{"url": "https://x"}], "container": "c"},
            ("mcp_servers", "container"),
        ),
        (
            "openai-chat",
            {"tools": [{"type": "function"}, {"type": "custom"}], "web_search_options": {}},
            ("web_search_options",),
        ),
        ("openai-chat", {"plugins": [{"id": "web"}]}, ("plugins",)),
        (
            "openai-responses",
            {"tools": [{"type": "function"}, {"type": "web_search_preview_2025_03_11"}, {"type": "mcp"}, {}]},
            ("web_search_preview", "mcp", "unknown"),
        ),
        ("openai-responses", {"background": True}, ("background",)),
        ("openai-responses", {"prompt": {"id": "stored"}}, ("stored_prompt",)),
        ("gemini", {"cachedContent": "cachedContents/x"}, ("cached_content",)),
        ("anthropic", {"tools": [{"type": "custom_web"}]}, ("custom_web",)),
        (
            "gemini",
            {"tools": [{"functionDeclarations": []}, {"googleSearch": {}, "codeExecution": {}}]},
            ("google_search", "code_execution"),
        ),
        ("gemini", {"tools": [{"google_search": {}}]}, ("google_search",)),
        (
            "bedrock-converse",
            {"toolConfig": {"tools": [{"toolSpec": {}}, {"systemTool": {"name": "nova_grounding"}}]}},
            ("nova_grounding",),
        ),
        ("bedrock-converse", {"additionalModelRequestFields": {"max_tokens": 9}}, ("additional_fields",)),
        ("bedrock-invoke", {"tools": [{"type": "web_search_20250305"}]}, ("web_search",)),
        ("anthropic", {"tools": [{"type": "a b"}]}, ("unknown",)),
        (
            "bedrock-invoke",
            {"toolConfig": {"tools": [{"systemTool": {"name": "nova_grounding"}}]}},
            ("nova_grounding",),
        ),
    ],
)
def test_vector_23_tools_of_the_vendor_are_named(
    api: LlmApi, body: dict[str, object], tools: tuple[str, ...]
) -> None:
    call = call_of(api, {"model": "m", **body} if api not in PATHS else body)
    assert call.server_tools == tools


@pytest.mark.parametrize(
    ("api", "body"),
    [
        (
            "anthropic",
            {"messages": [{"content": [{"type": "image", "source": {"type": "url", "url": "http://x"}}]}]},
        ),
        (
            "openai-chat",
            {"messages": [{"content": [{"type": "image_url", "image_url": {"url": "https://x"}}]}]},
        ),
        ("openai-responses", {"input": [{"content": [{"type": "input_image", "image_url": "https://x"}]}]}),
        ("openai-responses", {"input": [{"content": [{"type": "input_file", "file_url": "https://x"}]}]}),
        # The body as a whole is no call of a tool, whatever type it states.
        (
            "openai-responses",
            {"type": "tool_use", "input": [{"content": [{"type": "input_file", "file_url": "https://x"}]}]},
        ),
        (
            "openai-chat",
            {"messages": [{"content": [{"type": "video_url", "video_url": {"url": "https://x"}}]}]},
        ),
        (
            "openai-chat",
            {"messages": [{"content": [{"type": "document_url", "document_url": "https://x"}]}]},
        ),
        ("gemini", {"contents": [{"parts": [{"fileData": {"fileUri": "https://x"}}]}]}),
        (
            "bedrock-converse",
            {"messages": [{"content": [{"image": {"source": {"s3Location": {"uri": "s3://x"}}}}]}]},
        ),
    ],
)
def test_contents_that_the_vendor_fetches_are_a_tool(api: LlmApi, body: dict[str, object]) -> None:
    call = call_of(api, {"model": "m", **body} if api not in PATHS else body)
    assert call.server_tools == (FETCH_TOOL,)


def test_addresses_in_calls_of_tools_are_no_contents() -> None:
    use = {"type": "tool_use", "input": {"source": {"type": "url"}, "file_url": "x"}}
    tool = {"name": "t", "input_schema": {"properties": {"file_url": {"type": "string"}}}}
    body = {"model": "m", "max_tokens": 1, "tools": [tool], "messages": [{"content": [use]}]}
    assert call_of("anthropic", body).server_tools == ()
    parts = {"contents": [{"parts": [{"functionCall": {"args": {"file_uri": "x"}}}]}]}
    assert call_of("gemini", parts).server_tools == ()


def test_a_gateway_reaches_every_model_of_its_list() -> None:
    assert call_of("openai-chat", {"model": "a", "models": ["b", "c"]}).models == ("a", "b", "c")
    assert call_of("openai-chat", {"models": ["b"]}).models == ("b",)
    assert refusal_of("openai-chat", {"models": []}) == "llm.model"
    assert refusal_of("openai-chat", {"models": [1]}) == "llm.shape"
    assert refusal_of("openai-chat", {"model": "a", "fallbacks": ["b"]}) == "llm.model"


def test_a_chat_stream_states_its_usage_only_where_it_is_asked_to() -> None:
    assert call_of("openai-chat", {"model": "a"}).has_usage
    assert not call_of("openai-chat", {"model": "a", "stream": True}).has_usage
    options = {"model": "a", "stream": True, "stream_options": {"include_usage": False}}
    assert not call_of("openai-chat", options).has_usage
    assert call_of("openai-chat", {**options, "stream_options": {"include_usage": True}}).has_usage


def test_numbers_of_embeddings_are_tokens() -> None:
    call = call_of("openai-embeddings", {"model": "a", "input": [[1, 2, 3], [4]]})
    assert call.max_output == 0
    assert call.input_tokens >= 4


def test_the_path_names_model_and_action() -> None:
    assert read_target("anthropic", "/anything") == RequestTarget()
    assert read_target("gemini", "/v1/models/g:generateContent") == RequestTarget("g", "generateContent")
    assert read_target("gemini", "/v1/models/g:countTokens") is None
    assert read_target("bedrock-converse", "/model/m/invoke") is None
    assert call_of("gemini", {}, "/v1/models/g:generateContent").models == ("g",)
    assert call_of("gemini", {"model": "models/h"}).models == ("gemini-x", "h")


def test_vector_21_a_model_of_bedrock_may_be_an_arn_with_a_slash() -> None:
    arn = "arn:aws:bedrock:us-east-1:1:inference-profile/us.claude"
    path = f"/model/{arn.replace('/', '%2F')}/converse"
    assert call_of("bedrock-converse", {}, path).models == (arn,)
    assert (
        refusal_of("bedrock-converse", {}, "/model/arn:aws:bedrock:us:1:prompt%2Fx/converse") == "llm.model"
    )
    assert refusal_of("bedrock-invoke", {}, "/model/arn:aws:bedrock:us:1:prompt%2Fx/invoke") == "llm.model"


@pytest.mark.parametrize(
    ("body", "most"),
    [
        ({"max_gen_len": 5}, 5),
        ({"inferenceConfig": {"max_new_tokens": 6}}, 6),
        ({"inferenceConfig": {"maxTokens": 7}}, 7),
        ({"textGenerationConfig": {"maxTokenCount": 8}}, 8),
        ({"prompt": "x"}, None),
    ],
)
def test_each_vendor_of_bedrock_has_a_name_for_the_maximum(body: object, most: int | None) -> None:
    assert call_of("bedrock-invoke", body).max_output == most


@pytest.mark.parametrize("body", [[], "x", 1, None])
def test_a_body_that_is_no_object_is_refused(body: object) -> None:
    assert refusal_of("anthropic", body) == "llm.shape"


def test_the_tools_of_a_request_are_bounded() -> None:
    tools = [{"type": f"tool{number}"} for number in range(MAX_SERVER_TOOLS + 1)]
    assert refusal_of("anthropic", {"model": "m", "tools": tools}) == "llm.shape"
    assert refusal_of("anthropic", {"model": "m", "tools": {}}) == "llm.shape"
    assert refusal_of("anthropic", {"model": "m", "tools": ["x"]}) == "llm.shape"


def test_lists_that_are_looked_at_are_bounded() -> None:
    empty: list[dict[str, object]] = [{}]
    for api, name in (("anthropic", "tools"), ("openai-chat", "tools"), ("anthropic", "fallbacks")):
        api_name: LlmApi = "anthropic" if api == "anthropic" else "openai-chat"
        listed = empty * (MAX_LISTED_OBJECTS + 1)
        assert refusal_of(api_name, {"model": "m", name: listed}) == "llm.shape"
    many: dict[str, object] = {f"tool{number}": {} for number in range(MAX_LISTED_OBJECTS + 1)}
    assert refusal_of("gemini", {"tools": [many]}) == "llm.shape"
    names = [f"m{number}" for number in range(MAX_MODELS + 1)]
    assert refusal_of("openai-chat", {"models": names}) == "llm.shape"
    assert call_of("openai-chat", {"models": names[1:]}).models == tuple(names[1:])


def test_a_faster_mode_is_a_tier() -> None:
    body = {"model": "a", "max_tokens": 5, "service_tier": "auto"}
    assert call_of("anthropic", {**body, "speed": "standard"}).tier == ""
    assert call_of("anthropic", {**body, "speed": "fast"}).tier == "fast"
    assert call_of("anthropic", {**body, "fallbacks": [{"model": "b", "speed": "fast"}]}).tier == "fast"
    assert call_of("bedrock-converse", {"performanceConfig": {"latency": "optimized"}}).tier == "optimized"
    assert call_of("bedrock-converse", {"performanceConfig": {"latency": "standard"}}).tier == ""


@pytest.mark.parametrize("name", ["n", "num_generations", "numResults"])
def test_an_invoked_model_may_be_asked_for_several_answers(name: str) -> None:
    assert call_of("bedrock-invoke", {"max_tokens": 5, name: 4}).choices == 4
    assert call_of("bedrock-invoke", {"max_tokens": 5}).choices == 1


@pytest.mark.parametrize("name", ["previous_response_id", "conversation"])
def test_what_the_vendor_has_stored_counts_as_much_as_it_may_be(name: str) -> None:
    assert call_of("openai-responses", {"model": "m", name: "x"}).input_tokens > STORED_INPUT_TOKENS
    assert call_of("openai-responses", {"model": "m", name: None}).input_tokens < 100
