//! That URIs are shown exactly where MCP puts them, and that nothing else in an answer changes.

use super::*;

const KINDS: [ResultKind; 10] = [
    ResultKind::ToolResult,
    ResultKind::PromptResult,
    ResultKind::ReadResult,
    ResultKind::ResourceEntry,
    ResultKind::TemplateEntry,
    ResultKind::ToolEntry,
    ResultKind::UpdatedParams,
    ResultKind::SkillEntry,
    ResultKind::SkillResult,
    ResultKind::DirectoryResult,
];

/// In the expected text, `@/` represents the id, and `^` the prefix of a scheme.
fn check(kind: ResultKind, raw: &str, expected: &str) {
    let expected = expected.replace("@/", "Zq9/").replace('^', "yard+");
    let mapped = map_result(kind, &id(), raw.as_bytes()).map(|json| String::from_utf8(json).unwrap());
    assert_eq!(mapped.as_deref().unwrap_or(raw), expected);
    assert_eq!(mapped.is_some(), raw != expected);
}

fn check_same(kind: ResultKind, raw: &str) {
    check(kind, raw, raw);
}

#[test]
fn tool_results_show_linked_and_embedded_resources() {
    for (raw, expected) in [
        (
            r#"{"content":[{"type":"resource_link","uri":"file:///a","name":"a"}]}"#,
            r#"{"content":[{"type":"resource_link","uri":"^file://@//a","name":"a"}]}"#,
        ),
        (
            r#"{"content":[{"uri":"a:b","type":"resource_link"},{"resource":{"uri":"ui://v","text":"t"},"type":"resource"}]}"#,
            r#"{"content":[{"uri":"^a:@/b","type":"resource_link"},{"resource":{"uri":"ui://@/v","text":"t"},"type":"resource"}]}"#,
        ),
        // Every byte around it stays, sensible or not.
        (
            " {\"n\":1.0e+00 ,\t\"content\" : [ {\"type\":\"resource_link\",\"uri\" : \"a:\\u0062\\/\" ,\"uri\":\"c:\"}]\r\n}",
            " {\"n\":1.0e+00 ,\t\"content\" : [ {\"type\":\"resource_link\",\"uri\" : \"^a:@/\\u0062\\/\" ,\"uri\":\"^c:@/\"}]\r\n}",
        ),
        // Escapes in the scheme, and in the keys that lead there.
        (
            r#"{"c\u006fntent":[{"typ\u0065":"resourc\u0065_link","\u0075ri":"\u0066ile\u003a\/\u002fa"}]}"#,
            r#"{"c\u006fntent":[{"typ\u0065":"resourc\u0065_link","\u0075ri":"^\u0066ile\u003a\/\u002f@/a"}]}"#,
        ),
        (
            r#"{"content":[{"type":"resource_link","uri":"\u0075i://\ud83d\ude00"}]}"#,
            r#"{"content":[{"type":"resource_link","uri":"\u0075i://@/\ud83d\ude00"}]}"#,
        ),
        (
            r#"{"content":[{"type":"resource_link","uri":"a\n:b"}]}"#,
            r#"{"content":[{"type":"resource_link","uri":"yard:@/a\n:b"}]}"#,
        ),
    ] {
        check(ResultKind::ToolResult, raw, expected);
    }
}

#[test]
fn tool_results_keep_what_only_looks_like_a_resource() {
    for raw in [
        r#"{"content":[]}"#,
        r#"{"content":[{"type":"text","text":"{\"uri\":\"a:b\"}"}]}"#,
        r#"{"content":[{"type":"text","text":"","uri":"a:b","resource":{"uri":"a:b"}}]}"#,
        r#"{"content":[{"type":"resource_link","resource":{"uri":"a:b"}},{"type":"resource","uri":"a:b"}]}"#,
        r#"{"content":[{"type":"resource_link","uri":7},{"type":"resource_link","uri":{"uri":"a:b"}}]}"#,
        r#"{"content":[{"type":"resource","resource":{"_meta":{"uri":"a:b"}}},{"type":7,"uri":"a:b"}]}"#,
        r#"{"content":[[{"type":"resource_link","uri":"a:b"}]],"isError":false}"#,
        r#"{"content":[{"type":"tool_use","arguments":{"uri":"a:b","type":"resource_link"}}]}"#,
        r#"{"structuredContent":{"content":[{"type":"resource_link","uri":"a:b"}],"uri":"a:b"}}"#,
        r#"{"uri":"a:b","contents":[{"uri":"a:b"}],"_meta":{"ui":{"resourceUri":"ui://a","uri":"a:b"}}}"#,
        r#"{"content":"\"uri\"","x":["uri",null,true,-0.5E-3]}"#,
        r#"[{"type":"resource_link","uri":"a:b"}]"#,
        r#""uri""#,
    ] {
        check_same(ResultKind::ToolResult, raw);
    }
}

#[test]
fn each_kind_of_answer_has_its_own_places() {
    use ResultKind::{
        DirectoryResult, PromptResult, ReadResult, ResourceEntry, SkillEntry, SkillResult, TemplateEntry,
        ToolEntry, UpdatedParams,
    };
    for (kind, raw, expected) in [
        (
            PromptResult,
            r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"a:b"}}}]}"#,
            r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"^a:@/b"}}}]}"#,
        ),
        (
            PromptResult,
            r#"{"messages":[{"content":[{"type":"text"},{"type":"resource_link","uri":"a:b"}]}]}"#,
            r#"{"messages":[{"content":[{"type":"text"},{"type":"resource_link","uri":"^a:@/b"}]}]}"#,
        ),
        (
            ReadResult,
            r#"{"contents":[{"uri":"a://b","text":""},{"uri":"a://c"}],"uri":"a:b"}"#,
            r#"{"contents":[{"uri":"^a://@/b","text":""},{"uri":"^a://@/c"}],"uri":"a:b"}"#,
        ),
        (
            ResourceEntry,
            r#"{"name":"n","uri":"a://b","icons":[{"src":"https://i"}],"_meta":{"uri":"a:b"}}"#,
            r#"{"name":"n","uri":"^a://@/b","icons":[{"src":"https://i"}],"_meta":{"uri":"a:b"}}"#,
        ),
        (
            TemplateEntry,
            r#"{"uriTemplate":"a://{b}/{+c}","uri":"a:b"}"#,
            r#"{"uriTemplate":"^a://@/{b}/{+c}","uri":"a:b"}"#,
        ),
        (
            ToolEntry,
            r#"{"name":"t","_meta":{"ui":{"resourceUri":"ui://v"},"ui/resourceUri":"ui://v"}}"#,
            r#"{"name":"t","_meta":{"ui":{"resourceUri":"ui://@/v"},"ui/resourceUri":"ui://@/v"}}"#,
        ),
        (UpdatedParams, r#"{"uri":"a:b"}"#, r#"{"uri":"^a:@/b"}"#),
        (
            SkillEntry,
            r#"{"uri":"skill://s/SKILL.md","frontmatter":{"uri":"a:b"},"resources":[{"uri":"skill://s/a"}]}"#,
            r#"{"uri":"skill://@/s/SKILL.md","frontmatter":{"uri":"a:b"},"resources":[{"uri":"skill://@/s/a"}]}"#,
        ),
        (
            SkillResult,
            r#"{"skill":{"uri":"skill://s/SKILL.md","resources":[{"uri":"a://b"}]},"uri":"a:b"}"#,
            r#"{"skill":{"uri":"skill://@/s/SKILL.md","resources":[{"uri":"^a://@/b"}]},"uri":"a:b"}"#,
        ),
        (
            DirectoryResult,
            r#"{"resources":[{"uri":"skill://s/a"}]}"#,
            r#"{"resources":[{"uri":"skill://@/s/a"}]}"#,
        ),
    ] {
        check(kind, raw, expected);
    }
}

#[test]
fn tools_keep_their_schemas_and_foreign_addresses() {
    for raw in [
        r#"{"_meta":{"ui":{"resourceUri":"https://a"},"ui/resourceUri":"x"}}"#,
        r#"{"_meta":{"resourceUri":"ui://a","x":{"ui":{"resourceUri":"ui://a"}}}}"#,
        r#"{"inputSchema":{"_meta":{"ui":{"resourceUri":"ui://a"}},"properties":{"uri":{}}}}"#,
    ] {
        check_same(ResultKind::ToolEntry, raw);
    }
}

#[test]
fn a_call_that_asks_for_input_passes_untouched() {
    let raw = r#"{"resultType":"input_required","inputRequests":{"a":{"method":"sampling/createMessage","params":
        {"messages":[{"role":"user","content":{"type":"tool_result","content":[{"type":"resource_link","uri":"a:b"}]}}]}}}}"#;
    for kind in KINDS {
        check_same(kind, raw);
    }
}

#[test]
fn what_is_not_json_is_left_alone() {
    let link = r#"{"content":[{"type":"resource_link","uri":"a:b"}]"#;
    for end in ["", "}}", "} x", ",}", r#","x"}"#, r#","x":}"#, r#","x":01}"#, r#","x":1.}"#, r#","x":-}"#] {
        check_same(ResultKind::ToolResult, &format!("{link}{end}"));
    }
    for value in [
        r#""\x""#,
        r#""\u00g0""#,
        "\"\n\"",
        "tru",
        "nulll",
        "+1",
        ".5",
        "1e",
        "[1,]",
        "{1:2}",
        "'a'",
        "[1 2]",
    ] {
        check_same(ResultKind::ToolResult, &format!("{link},\"x\":{value}}}"));
    }
    assert_eq!(map_result(ResultKind::UpdatedParams, &id(), b"{\"uri\":\"a:\xff\"}"), None);
}

#[test]
fn nesting_has_an_end() {
    let nested = |depth: usize| format!(r#"{{"uri":"a:b","x":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    let allowed = nested(127);
    check(ResultKind::UpdatedParams, &allowed, &allowed.replace("a:b", "^a:@/b"));
    let wide = format!(r#"{{"uri":"a:b","x":[[]{}]}}"#, ",[]".repeat(200));
    check(ResultKind::UpdatedParams, &wide, &wide.replace("a:b", "^a:@/b"));
    check_same(ResultKind::UpdatedParams, &nested(128));
    check_same(ResultKind::UpdatedParams, &nested(1_000_000));
}

fn id() -> UpstreamId {
    UpstreamId::parse("Zq9").unwrap()
}
