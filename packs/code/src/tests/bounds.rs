//! Bounds of answers: how many results, and how many tokens.

use super::*;

#[tokio::test]
async fn searches_for_several_parts_return_no_more_than_was_asked_for() {
    let scene = Scene::new();
    let calls = [
        ("decomposed_search", json!({ "query": TWO_THINGS, "n_results": 1 })),
        ("enhanced_search", json!({ "query": TWO_THINGS, "n_results": 1, "mode": "decompose" })),
        ("enhanced_search", json!({ "query": TWO_THINGS, "n_results": 1, "mode": "both" })),
        ("decomposed_search", json!({ "query": TWO_THINGS, "n_results": 2 })),
    ];
    let results = scene.calls(json!({ "projects": [scene.project()] }), &calls).await;
    let counts: Vec<usize> = results.iter().map(|result| names(result).len()).collect();
    assert_eq!(counts, [1, 1, 1, 2], "{results:?}");
}

#[tokio::test]
async fn the_budget_decides_how_much_of_a_long_function_a_context_has() {
    let scene = Scene::new();
    let lines: Vec<String> = (0..100).map(|n| format!("    signal_child(pid, {n})\n")).collect();
    scene.write("project/long.py", &format!("def kill_all_children(pid):\n{}", lines.concat()));
    let context = async |budget: usize| {
        let task = json!({ "task": "kill all children", "budget": budget });
        let result = scene.call(false, "code_context", task).await;
        let shown = text(&result).to_owned();
        assert!(shown.chars().count() <= budget * 4, "{} of {budget} tokens", shown.chars().count());
        assert!(shown.contains("long.py:1-101 kill_all_children\ndef kill_all_children(pid):"), "{shown}");
        (shown.contains("signal_child(pid, 99)"), shown.contains("## process.py:1-2 kill_children"))
    };
    assert_eq!(context(4_000).await, (true, true), "longer than what the index keeps of a function");
    assert_eq!(context(500).await, (false, true), "it leaves room for others");
}
