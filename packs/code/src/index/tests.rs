//! The index over real files.

use super::*;
use crate::config::ModelChoice;
use crate::project::Projects;

struct Scene {
    folder: tempfile::TempDir,
    encoder: Arc<Encoder>,
}

impl Scene {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let scene = Self { folder, encoder: Arc::new(Encoder::built_in(ModelChoice::Fast).unwrap()) };
        std::fs::create_dir(scene.root()).unwrap();
        for (path, text) in files {
            scene.write(path, text);
        }
        scene
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn open(&self) -> Index {
        let project = Projects::new(vec![self.root()], false).locate(".", None).unwrap().project;
        Index::open(project, &self.folder.path().join("cache"), self.encoder.clone()).unwrap()
    }
}

fn update(index: &Index) -> (usize, usize, usize) {
    let update = index.refresh(&|| true, &|_, _| {}).unwrap();
    (update.indexed_files, update.removed_files, update.reused_files)
}

fn names(index: &Index, query: &str, filter: &Filter) -> Vec<String> {
    let vector = futures_util::FutureExt::now_or_never(index.encoder.query(query)).unwrap().unwrap();
    index.search(query, &vector, filter, 10).into_iter().map(|answer| answer.name).collect()
}

const FILES: [(&str, &str); 3] = [
    (
        "src/process.py",
        "@app.task\nasync def kill_children(pid):\n    os.killpg(pid, SIGKILL)\n\nclass Child(Process):\n    pass\n",
    ),
    (
        "src/files.rs",
        "/// Reads a whole file.\nfn slurp(path: &Path) -> String {\n    read_to_string(path)\n}\n",
    ),
    ("README.md", "# A project\nIt does things.\n"),
];

#[test]
fn a_question_finds_the_code_that_answers_it() {
    let scene = Scene::new(&FILES);
    let index = scene.open();
    assert_eq!(update(&index), (3, 0, 0));
    assert_eq!(
        names(&index, "kill a child process and its grandchildren", &Filter::default())[0],
        "kill_children"
    );
    assert_eq!(names(&index, "read the contents of a file", &Filter::default())[0], "slurp");
    let size = index.size();
    assert_eq!((size.files, size.chunks, size.vectors), (3, 4, 4));
}

#[test]
fn only_what_changed_is_read_again() {
    let scene = Scene::new(&FILES);
    let index = scene.open();
    update(&index);
    assert_eq!(update(&index), (0, 0, 3));
    scene.write("src/files.rs", "fn gone() {}\n\nfn written() {}\n");
    std::fs::remove_file(scene.root().join("README.md")).unwrap();
    assert_eq!(update(&index), (1, 1, 1));
    assert!(!names(&index, "slurp", &Filter::default()).contains(&"slurp".to_owned()));
    assert_eq!(names(&index, "written", &Filter::default())[0], "written");
}

#[test]
fn a_new_process_and_a_second_gateway_reuse_the_stored_index() {
    let scene = Scene::new(&FILES);
    let first = scene.open();
    update(&first);
    let second = scene.open();
    assert_eq!(second.size(), first.size());
    assert_eq!(update(&second), (0, 0, 3));
    scene.write("src/new.rs", "fn brand_new() {}\n");
    assert_eq!(update(&first), (1, 0, 3));
    assert_eq!(update(&second), (0, 0, 4), "the second gateway reads what the first has written");
    assert_eq!(names(&second, "brand_new", &Filter::default())[0], "brand_new");
}

#[test]
fn filters_choose_by_language_kind_decorator_async_and_base() {
    let scene = Scene::new(&FILES);
    let index = scene.open();
    update(&index);
    let check = |filter: Filter, expected: &[&str]| {
        let mut found = names(&index, "process file child read kill project", &filter);
        found.sort_unstable();
        assert_eq!(found, expected, "{filter:?}");
    };
    check(Filter { language: Some("python".into()), ..Filter::default() }, &["Child", "kill_children"]);
    check(Filter { language: Some("rs".into()), ..Filter::default() }, &["slurp"]);
    check(Filter { node_type: Some("class".into()), ..Filter::default() }, &["Child"]);
    check(Filter { decorator: Some("@app.task".into()), ..Filter::default() }, &["kill_children"]);
    check(Filter { is_async: Some(true), ..Filter::default() }, &["kill_children"]);
    check(Filter { base_class: Some("Process".into()), ..Filter::default() }, &["Child"]);
}

#[test]
fn a_filter_for_a_decorator_or_a_base_means_whole_names_or_their_last_segments() {
    let scene = Scene::new(&[
        (
            "a.py",
            "@app.task\ndef one():\n    pass\n\n@app.task_failed\ndef two():\n    pass\n\n@multitask\ndef three():\n    pass\n",
        ),
        (
            "b.py",
            "class Four(db.Base):\n    pass\n\nclass Five(Database):\n    pass\n\nclass Six(BaseModel):\n    pass\n",
        ),
        ("c.rs", "#[tokio::test(start_paused = true)]\nasync fn seven() {}\n\n#[attest]\nfn eight() {}\n"),
        ("d.php", "<?php\nclass Nine extends App\\Base {\n}\n"),
    ]);
    let index = scene.open();
    update(&index);
    let check = |filter: Filter, expected: &[&str]| {
        let mut found = names(&index, "one two three four five six seven eight nine app base", &filter);
        found.sort_unstable();
        assert_eq!(found, expected, "{filter:?}");
    };
    let decorator = |name: &str| Filter { decorator: Some(name.into()), ..Filter::default() };
    let base = |name: &str| Filter { base_class: Some(name.into()), ..Filter::default() };
    for name in ["task", "app.task", "@app.task", "@app.task(bind=True)"] {
        check(decorator(name), &["one"]);
    }
    for name in ["test", "tokio::test", "#[tokio::test]"] {
        check(decorator(name), &["seven"]);
    }
    check(base("Base"), &["Four", "Nine"]);
    check(base("db.Base"), &["Four"]);
    check(base("App\\Base"), &["Nine"]);
    check(base("Data"), &[]);
    check(decorator("app"), &[]);
}

#[test]
fn ignored_files_and_lock_files_are_not_indexed() {
    let scene = Scene::new(&FILES);
    scene.write(".stravignore", "src/process.py\n");
    scene.write("package-lock.json", "{\n}\n");
    scene.write("picture.png", "x");
    let index = scene.open();
    assert_eq!(update(&index), (2, 0, 0));
}

#[test]
fn a_file_of_additions_limits_the_index_to_the_paths_globs_and_folders_that_it_names() {
    let scene = Scene::new(&FILES);
    scene.write(".ignore", "/gen/\n");
    for path in ["tools/a.py", "tools/deep/b.py", "tools/c.rs", "other/a.py", "gen/d.py", "lib/src/e.rs"] {
        scene.write(path, "fn x() {}\n");
    }
    let index = scene.open();
    let check = |additions: &str, expected: &[&str]| {
        scene.write(ADD_FILE, additions);
        update(&index);
        let loaded = index.lock();
        let mut found: Vec<&str> = loaded.files.keys().map(|path| path.to_str().unwrap()).collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{additions}");
    };
    check("# folders\ntools\n", &["tools/a.py", "tools/c.rs", "tools/deep/b.py"]);
    check("./src/files.rs\n/README.md\n", &["README.md", "src/files.rs"]);
    check("/src/\n", &["src/files.rs", "src/process.py"]);
    check("src\n", &["lib/src/e.rs", "src/files.rs", "src/process.py"]);
    check("tools/*.py\n**/deep/*\n", &["tools/a.py", "tools/deep/b.py"]);
    check("*.py\n!other/*.py\ngen/d.py\n", &["src/process.py", "tools/a.py", "tools/deep/b.py"]);
    check("missing\n", &[]);
    let all = ["README.md", "lib/src/e.rs", "other/a.py", "src/files.rs", "src/process.py"];
    check("\n# nothing is named\n", &[&all[..], &["tools/a.py", "tools/c.rs", "tools/deep/b.py"]].concat());
}

#[test]
fn an_index_stays_small_over_thousands_of_edits() {
    let scene = Scene::new(&FILES);
    let index = scene.open();
    update(&index);
    let (slots, edits) = (index.lock().entries.len(), 2_500);
    for edit in 0..edits {
        let text = format!("fn edited_{edit}() {{}}\n\nfn second_{edit}() {{}}\n");
        let chunks = chunks(Path::new("src/files.rs"), &text).into_iter();
        let chunks = chunks.map(|chunk| StoredChunk { chunk, vector: None }).collect();
        let stamp = Stamp::of(&scene.root().join("src/files.rs")).unwrap();
        index.write(vec![StoredFile { path: "src/files.rs".into(), stamp, chunks }], &[]).unwrap();
        let now = index.lock().entries.len();
        assert!(now < slots + 2_100, "{now} slots after {edit} edits");
    }
    for (name, is_there) in [("edited_2499", true), ("second_2499", true), ("edited_2498", false)] {
        assert_eq!(names(&index, name, &Filter::default()).contains(&name.to_owned()), is_there, "{name}");
    }
    assert_eq!(index.size().chunks, 5);
    assert_eq!(scene.open().size(), index.size(), "what is stored is the same");
}

#[test]
fn a_cancelled_update_goes_on_where_it_stopped() {
    let many: Vec<(String, String)> =
        (0..450).map(|n| (format!("f{n}.py"), format!("def f{n}():\n    pass\n"))).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let scene = Scene::new(&many);
    let index = scene.open();
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let go_on = || asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < 2;
    let first = index.refresh(&go_on, &|_, _| {}).unwrap();
    assert_eq!((first.indexed_files, first.cancelled), (400, true));
    assert_eq!(update(&scene.open()), (50, 0, 400));
}

#[tokio::test]
async fn a_slow_model_answers_by_words_first_and_its_vectors_are_filled_in_later() {
    let mut scene = Scene::new(&FILES);
    scene.encoder = Arc::new(Encoder::built_in(ModelChoice::Precise).unwrap());
    let index = scene.open();
    update(&index);
    assert_eq!((index.size().chunks, index.size().vectors), (4, 0));
    assert_eq!(index.search("kill children", &[], &Filter::default(), 1)[0].name, "kill_children");
    assert!(index.claim_fill() && !index.claim_fill(), "one at a time");
    scene.write("src/files.rs", "fn changed() {}\n");
    let result = index.fill(&|| true, &|_| {}).await;
    index.end_fill(&result);
    assert!(result.unwrap());
    assert_eq!(index.size().vectors, 4);
    assert_eq!(update(&index), (1, 0, 2), "what changed is read again, the rest is kept");
    assert_eq!(index.size().vectors, 3, "the changed file has no vector yet");
    assert!(index.claim_fill());
    assert_eq!(scene.open().size(), index.size(), "vectors are stored");
}
