//! Several gateways, and a watcher or a fill beside them, with one index; and several models with one each.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use parking_lot::Mutex;

use super::*;
use crate::embed::tests::Service;
use crate::index::{Filter, Index};
use crate::project::{Place, Projects};

/// Two gateways with one cache.
fn gateways(scene: &Scene, config: &Value) -> [Arc<Code>; 2] {
    [(); 2].map(|()| {
        let host = Host::for_tests(scene.folder.path());
        let (state, cache) = (host.state().unwrap(), host.cache().unwrap());
        let config: Config = serde_json::from_value(config.clone()).unwrap();
        Arc::new(Code::new(config, host, &state, &cache))
    })
}

fn place(scene: &Scene) -> Place {
    Projects::new(vec![scene.project()], false).locate(".", None).unwrap()
}

/// How many files were read, and how many were as they are in the index.
fn update(index: &Index) -> (usize, usize) {
    let update = index.refresh(&|| true, &|_, _| {}).unwrap();
    (update.indexed_files, update.reused_files)
}

/// A service of vectors whose first answer waits until the sender is dropped.
fn waiting_service() -> (Service, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (begun, has_begun) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let service = Service::start("200 OK", move |body| {
        let _ = begun.send(());
        // Later requests are answered at once: the sender is gone by then.
        let _ = released.recv();
        let count = body["input"].as_array().unwrap().len();
        json!({ "embeddings": vec![[3.0, 4.0]; count] }).to_string()
    });
    (service, has_begun, release)
}

fn with_service(scene: &Scene, service: &Service) -> Value {
    let embeddings = json!({ "provider": "ollama", "base_url": service.address, "model": "m" });
    json!({ "projects": [scene.project()], "embeddings": embeddings })
}

/// Two gateways with one cache: the second one waits, and reads the vectors that the first one has computed.
#[tokio::test(flavor = "multi_thread")]
async fn two_gateways_with_one_cache_compute_each_vector_once() {
    let scene = Scene::new();
    let (service, has_begun, release) = waiting_service();
    let [first, second] = gateways(&scene, &with_service(&scene, &service));
    let [one, other] = [&first, &second].map(|code| code.index(&place(&scene), None).unwrap());
    update(&one);
    update(&other);
    let chunks = one.size().chunks;
    assert_eq!((one.size().vectors, other.size().vectors), (0, 0));
    let filling = tokio::task::spawn_blocking(move || first.fill_in_turn(&one, &|| true, &|_| {}));
    has_begun.recv_timeout(Duration::from_secs(20)).unwrap();
    let release = Mutex::new(Some(release));
    let waiting = move || {
        let go_on = || {
            release.lock().take();
            true
        };
        (second.fill_in_turn(&other, &go_on, &|_| {}), other.size().vectors)
    };
    let (filled, vectors) = tokio::task::spawn_blocking(waiting).await.unwrap();
    assert!(filled.unwrap() && filling.await.unwrap().unwrap());
    let asked: usize =
        service.received.try_iter().map(|(_, _, body)| body["input"].as_array().unwrap().len()).sum();
    assert_eq!((asked, vectors), (chunks, chunks), "each passage was sent once");
}

#[tokio::test]
async fn an_index_that_one_gateway_deletes_is_rebuilt_for_all_its_users() {
    let scene = Scene::new();
    let [first, second] = gateways(&scene, &json!({ "projects": [scene.project()] }));
    let place = place(&scene);
    let [one, other] = [&first, &second].map(|code| code.index(&place, None).unwrap());
    assert_eq!((update(&one), update(&other)), ((2, 0), (0, 2)));
    assert!(first.delete_index(&place).unwrap() && !first.delete_index(&place).unwrap());
    assert_eq!(one.size().files, 0);
    assert_eq!(update(&other), (2, 0), "it is empty for the other gateway, too");
    assert_eq!(update(&one), (0, 2), "what the other has written is seen");
    scene.write("project/new.py", "def added():\n    pass\n");
    assert_eq!((update(&one), update(&other)), ((1, 2), (0, 3)));
    assert!(second.delete_all().unwrap() && !first.delete_all().unwrap());
    assert_eq!((update(&other), update(&one)), ((3, 0), (0, 3)));
    assert!(
        Arc::ptr_eq(&one, &first.index(&place, None).unwrap()),
        "a watcher and the searches use one index"
    );
}

#[tokio::test]
async fn an_index_whose_file_was_removed_is_made_again() {
    let scene = Scene::new();
    let config = json!({ "projects": [scene.project()] });
    let [one, later] = gateways(&scene, &config);
    let one = one.index(&place(&scene), None).unwrap();
    update(&one);
    std::fs::remove_dir_all(one.folder()).unwrap();
    assert_eq!(update(&one), (2, 0));
    assert_eq!(update(&later.index(&place(&scene), None).unwrap()), (0, 2), "it is on the disk");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_can_be_deleted_while_vectors_are_computed() {
    let scene = Scene::new();
    let (service, has_begun, release) = waiting_service();
    let [first, second] = gateways(&scene, &with_service(&scene, &service));
    let one = first.index(&place(&scene), None).unwrap();
    update(&one);
    let chunks = one.size().chunks;
    let filling = one.clone();
    let filling = tokio::task::spawn_blocking(move || {
        tokio::runtime::Handle::current().block_on(filling.fill(&|| true, &|_| {}))
    });
    has_begun.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(second.delete_index(&place(&scene)).unwrap());
    drop(release);
    filling.await.unwrap().unwrap();
    update(&one);
    let filling = tokio::task::spawn_blocking(move || {
        assert!(first.fill_in_turn(&one, &|| true, &|_| {}).unwrap());
        one.size()
    });
    let size = filling.await.unwrap();
    assert_eq!((size.chunks, size.vectors), (chunks, chunks));
    let other = second.index(&place(&scene), None).unwrap();
    other.catch_up().unwrap();
    assert_eq!(other.size(), size, "both gateways have the same index");
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_choose_among_several_providers_and_each_has_vectors_of_its_own() {
    let scene = Scene::new();
    let [near, far] = [1.0, 2.0].map(|x| {
        Service::start("200 OK", move |body| {
            let count = body["input"].as_array().unwrap().len();
            json!({ "embeddings": vec![[x, 1.0]; count] }).to_string()
        })
    });
    let ollama = |service: &Service, model: &str| json!({ "provider": "ollama", "base_url": service.address, "model": model });
    let config = json!({
        "projects": [scene.project()],
        "embeddings": ollama(&near, "near"),
        "providers": { "far": ollama(&far, "far"), "nowhere": { "provider": "model2vec" } },
    });
    let ask = |tool: &'static str, provider: &str| {
        (tool, json!({ "query": "kill children", "provider": provider }))
    };
    let calls = [
        ask("semantic_index", "far"),
        ask("semantic_stats", "far"),
        ("semantic_stats", json!({})),
        ask("semantic_search", "far"),
        ask("semantic_index", "ollama"),
        ask("semantic_stats", "ollama"),
        ask("semantic_search", "nowhere"),
        ask("semantic_search", "gemini"),
        ask("delete_index", "far"),
        ask("semantic_stats", "far"),
        ask("semantic_stats", "ollama"),
        ("semantic_index", json!({ "provider": "far", "force": true })),
        ask("semantic_stats", "ollama"),
        ("delete_index", json!({ "provider": "far", "delete_all": true })),
        ("delete_index", json!({})),
        ask("semantic_stats", "far"),
        ("semantic_stats", json!({})),
    ];
    let results = scene.calls(config, &calls).await;
    let stats = |at: usize| {
        let stats = &results[at]["structuredContent"];
        let model = stats["model"].as_str().unwrap().split(' ').nth(2).unwrap().to_owned();
        (model, stats["chunks"] == stats["vectors"], stats["vectors"].as_u64().unwrap())
    };
    let (far_model, is_complete, vectors) = stats(1);
    assert!(far_model == "far" && is_complete && vectors > 0, "{results:?}");
    assert_eq!(stats(2), ("near".to_owned(), true, 0), "the default one has an index of its own");
    assert_eq!(names(&results[3])[0], "kill_children", "{}", results[3]);
    assert_eq!(stats(5), ("near".to_owned(), true, vectors));
    let expected = "[packs.code.providers.nowhere] has no `path`";
    assert!(text(&results[6]).contains(expected), "{}", results[6]);
    let expected =
        "the provider `gemini` is not configured; configured is `ollama`, and `far`, and `nowhere`";
    assert!(text(&results[7]).contains(expected), "{}", results[7]);
    assert_eq!((stats(9).2, stats(10).2), (0, vectors), "the vectors of another provider stay");
    assert_eq!(stats(12).2, vectors, "`force` computes those of its provider only");
    assert_eq!(
        text(&results[13]),
        "`delete_all` deletes the indexes of all providers\nHint: leave out `provider`"
    );
    assert_eq!((stats(15).2, stats(16).2), (0, 0), "without a provider, those of all are deleted");
    let asked = |service: &Service| service.received.try_iter().count();
    assert_eq!((asked(&near), asked(&far)), (1, 3), "passages, a question, and passages again");
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_vectors_of_another_length_are_never_compared_and_are_computed_again() {
    let scene = Scene::new();
    let length = Arc::new(AtomicUsize::new(2));
    let now = length.clone();
    let service = Service::start("200 OK", move |body| {
        let count = body["input"].as_array().unwrap().len();
        json!({ "embeddings": vec![vec![1.0; now.load(Ordering::SeqCst)]; count] }).to_string()
    });
    let [first, second] = gateways(&scene, &with_service(&scene, &service));
    let [one, other] = [&first, &second].map(|code| code.index(&place(&scene), None).unwrap());
    let fill = async |index: &Index| {
        assert!(index.fill(&|| true, &|_| {}).await.unwrap());
        (index.size().vectors, index.dimensions())
    };
    update(&one);
    let chunks = one.size().chunks;
    assert_eq!(fill(&one).await, (chunks, 2));

    length.store(3, Ordering::SeqCst);
    let question = one.encoder().query("kill children").await.unwrap();
    let found = one.search("kill children", &question, &Filter::default(), 1);
    assert_eq!((found[0].name.as_str(), one.size().vectors), ("kill_children", 0), "they count as missing");
    assert_eq!(fill(&one).await, (chunks, 3));
    other.catch_up().unwrap();
    assert_eq!((other.size().vectors, other.dimensions()), (chunks, 3), "they are stored");

    // Without a question, the first vector of an edit shows the new length.
    length.store(4, Ordering::SeqCst);
    scene.write("project/new.py", "def added():\n    pass\n");
    update(&other);
    assert_eq!(fill(&other).await, (chunks + 1, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_returns_vectors_of_two_lengths_in_turn_is_not_asked_indefinitely() {
    let scene = Scene::new();
    let requests = AtomicUsize::new(0);
    let service = Service::start("200 OK", move |body| {
        let count = body["input"].as_array().unwrap().len();
        let length = 2 + requests.fetch_add(1, Ordering::SeqCst) % 2;
        json!({ "embeddings": vec![vec![1.0; length]; count] }).to_string()
    });
    let [code, _] = gateways(&scene, &with_service(&scene, &service));
    let index = code.index(&place(&scene), None).unwrap();
    for number in 0..3 * index.encoder().batch() {
        scene.write(&format!("project/part{number}.py"), &format!("def part{number}():\n    pass\n"));
    }
    update(&index);
    let rounds = AtomicUsize::new(0);
    let filled = index.fill(&|| rounds.fetch_add(1, Ordering::SeqCst) < 20, &|_| {}).await;
    let expected = "the service of the embedding model returned vectors of different lengths";
    assert_eq!(filled.unwrap_err().message(), expected);
}

#[tokio::test(start_paused = true)]
async fn an_index_that_is_not_used_for_a_while_leaves_memory_and_is_read_again_from_the_disk() {
    use crate::tools::open_indexes::UNUSED;
    let scene = Scene::new();
    let [code, _] = gateways(&scene, &json!({ "projects": [scene.project()] }));
    let index = code.index(&place(&scene), None).unwrap();
    update(&index);
    let (size, in_memory) = (index.size(), Arc::downgrade(&index));
    tokio::time::sleep(2 * UNUSED).await;
    let same = code.index(&place(&scene), None).unwrap();
    assert!(Arc::ptr_eq(&index, &same), "it is in use");
    drop((index, same));
    tokio::time::sleep(UNUSED / 2).await;
    assert!(in_memory.upgrade().is_some(), "it was used a moment ago");
    tokio::time::sleep(2 * UNUSED).await;
    assert!(in_memory.upgrade().is_none());
    assert_eq!(code.host.running(), Vec::<String>::new(), "idle costs nothing");
    let again = code.index(&place(&scene), None).unwrap();
    assert_eq!((again.size(), update(&again).0), (size, 0));
}
