//! NATS servers that ask for credentials, that have TLS, and that are reached through a leaf.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::nats::Nats;
use super::sign_ins::Protected;
use super::world::{Setup, World, eventually};

fn file(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/nats").join(name)
}

/// Two nodes with these keys of `[cluster]` call each other's programs.
pub(crate) fn check(world: &mut World, cluster: &str) {
    world.start("a", &["one"], cluster);
    world.start("b", &["two"], cluster);
    for tool in ["one__pid", "two__pid"] {
        world.wait_for_tool(tool);
        let [here, there] = ["a", "b"].map(|node| world.node(node).call(tool, &json!({})).unwrap());
        assert_eq!(here, there);
    }
}

#[test]
fn nodes_authenticate_with_an_nkey() {
    let config = std::fs::read_to_string(file("nkey.conf")).unwrap();
    let mut world = World::over(|folder| Nats::one(folder, &config));
    let seed = std::fs::read_to_string(file("nkey.seed")).unwrap();
    check(&mut world, &format!("nkey = \"{}\"", seed.trim()));
}

#[test]
fn nodes_authenticate_with_a_credentials_file_and_need_few_rights() {
    let config = std::fs::read_to_string(file("operator.conf")).unwrap();
    let mut world = World::over(|folder| Nats::one(folder, &config));
    check(&mut world, &format!("creds = \"{}\"", file("node.creds").display()));
}

#[test]
fn a_node_that_nats_refuses_serves_its_own_server_and_reports_why() {
    let config = std::fs::read_to_string(file("nkey.conf")).unwrap();
    let mut world = World::over(|folder| Nats::one(folder, &config));
    let hosted = Protected::open(&world);
    world.start_with("a", Setup { config: &hosted.config, ..Setup::default() });
    eventually("a report", || {
        let status = world.node("a").status();
        assert_eq!(status["connected"], false);
        status["problem"].as_str().is_some_and(|problem| problem.contains("uthorization")).then_some(())
    });
    eventually("its own server", || world.node("a").call("hosted__hello", &json!({})).ok());
    let doctor = world.node("a").run(&["doctor"]);
    let text = String::from_utf8(doctor.stdout).unwrap();
    assert_eq!(doctor.status.code(), Some(1), "{text}");
    assert!(text.contains("this node is not connected to NATS (") && text.contains("uthorization"), "{text}");
}

#[test]
fn nodes_reach_nats_over_tls_with_certificates_on_both_sides() {
    let mut world = World::over(|folder| {
        make_certificates(folder);
        let at = folder.display();
        Nats::one(
            folder,
            &format!(
                "tls {{ cert_file: \"{at}/server.pem\", key_file: \"{at}/server.key\", ca_file: \"{at}/ca.pem\", verify: true }}"
            ),
        )
    });
    let at = world.path("").display().to_string();
    let keys = format!(
        "require_tls = true\nca = \"{at}/ca.pem\"\ntls_cert = \"{at}/node.pem\"\ntls_key = \"{at}/node.key\""
    );
    check(&mut world, &keys);
}

/// A certificate authority, and a certificate for the server and for nodes.
fn make_certificates(folder: &Path) {
    let openssl = |words: &str| {
        let output =
            Command::new("openssl").args(words.split(' ')).current_dir(folder).output().expect("run openssl");
        assert!(output.status.success(), "openssl {words}: {output:?}");
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(&format!("req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=yard-ca"));
    for (name, use_of_key) in [("server", "serverAuth"), ("node", "clientAuth")] {
        std::fs::write(
            folder.join("extensions"),
            format!("subjectAltName=IP:127.0.0.1\nextendedKeyUsage={use_of_key}\n"),
        )
        .unwrap();
        openssl(&format!("req -new {key} -keyout {name}.key -out {name}.csr -subj /CN={name}"));
        openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out {name}.pem -days 2 -extfile extensions"
        ));
    }
}

#[test]
fn a_laptop_joins_through_a_leaf_and_shows_only_what_it_exports() {
    let mut world = World::over(Nats::with_leaf);
    let (hub, leaf) = (world.nats.url(0), world.nats.url(1));
    world.start("team", &["one"], &format!("nats = \"{hub}\"\ndomain = \"hub\""));
    // The laptop's own config knows nothing of the cluster until it joins.
    let (key, config) = (world.path("key"), world.path("laptop").join("config.toml"));
    std::fs::create_dir_all(world.path("laptop")).unwrap();
    std::fs::write(&key, "0123456789abcdef0123456789abcdef\n").unwrap();
    std::fs::write(&config, "# mine\n").unwrap();
    let key = key.display().to_string();
    let words =
        ["join", &leaf, "--key-file", &key, "--node", "laptop", "--domain", "hub", "--export", "mine"];
    let output = world.run_in("laptop", &words);
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("added [cluster] to"), "{output:?}");
    let again = String::from_utf8(world.run_in("laptop", &words).stderr).unwrap();
    assert!(again.contains("has a [cluster] already"), "{again}");
    let missing = world.run_in("laptop", &["join", &leaf, "--creds", "nowhere"]);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("name the file that your team gave you"));
    let written = std::fs::read_to_string(&config).unwrap();
    assert!(written.contains("# mine\n") && written.contains("export = [\"mine\"]"), "{written}");
    let (_, section) = written.split_once("[cluster]\n").unwrap();
    world.start_with(
        "laptop",
        Setup { upstreams: &["mine", "private"], cluster: &format!("{section}\nlisten"), ..Setup::default() },
    );
    for tool in ["one__pid", "mine__pid"] {
        world.wait_for_tool(tool);
        let [here, there] = ["team", "laptop"].map(|node| world.node(node).call(tool, &json!({})).unwrap());
        assert_eq!(here, there);
    }
    assert!(world.node("laptop").tools().contains(&"private__pid".to_owned()));
    assert!(!world.node("team").tools().contains(&"private__pid".to_owned()));
    let table = String::from_utf8(world.node("team").run(&["cluster", "status"]).stdout).unwrap();
    assert!(table.contains("laptop  alive") && table.contains("through NATS, "), "{table}");
    let status = world.node("team").status();
    assert!(!status["owners"].to_string().contains("private"), "{status}");
}

#[test]
fn clusters_with_different_prefixes_on_one_nats_do_not_see_each_other() {
    let mut world = World::new();
    world.start("a", &["one"], "prefix = \"red\"");
    world.start("b", &["two"], "prefix = \"red\"");
    world.start("other", &["three"], "prefix = \"blue\"");
    for node in ["a", "b"] {
        eventually("both programs", || {
            let tools = world.node(node).tools();
            ["one__pid", "two__pid"].iter().all(|tool| tools.contains(&(*tool).to_owned())).then_some(())
        });
        assert!(!world.node(node).tools().contains(&"three__pid".to_owned()));
    }
    eventually("the other cluster", || (world.node("other").status()["inSync"] == true).then_some(()));
    let status = world.node("other").status();
    assert_eq!(status["nodes"].as_array().unwrap().len(), 1, "{status}");
    assert!(!world.node("other").tools().contains(&"one__pid".to_owned()));
}

#[test]
fn a_node_with_another_key_sees_nothing_and_is_not_seen() {
    let mut world = World::new();
    world.start("a", &["one"], "");
    world.wait_for_tool("one__pid");
    world.start("stranger", &["two"], "key = \"ffffffffffffffffffffffffffffffff\"");
    for node in ["a", "stranger"] {
        eventually("a warning", || {
            world.node(node).log().contains("was not sealed with the cluster's key").then_some(())
        });
    }
    for (node, own, other) in [("a", "one__pid", "two__pid"), ("stranger", "two__pid", "one__pid")] {
        eventually("its own program", || world.node(node).call(own, &json!({})).ok());
        assert!(!world.node(node).tools().contains(&other.to_owned()), "{node}");
        let status = world.node(node).status();
        assert_eq!(status["nodes"].as_array().unwrap().len(), 1, "{status}");
    }
}

#[test]
fn a_laptop_that_joins_with_credentials_shows_nothing_unless_it_exports() {
    let config = std::fs::read_to_string(file("operator.conf")).unwrap();
    let mut world = World::over(|folder| Nats::one(folder, &config));
    let creds = file("node.creds").display().to_string();
    world.start("team", &["one"], &format!("creds = \"{creds}\""));
    let (key, config) = (world.path("key"), world.path("laptop").join("config.toml"));
    std::fs::create_dir_all(world.path("laptop")).unwrap();
    std::fs::write(&key, "0123456789abcdef0123456789abcdef\n").unwrap();
    std::fs::write(&config, "").unwrap();
    let (url, key) = (world.nats.url(0), key.display().to_string());
    let words = ["join", &url, "--creds", &creds, "--key-file", &key, "--node", "laptop"];
    let output = world.run_in("laptop", &words);
    assert!(output.status.success(), "{output:?}");
    let written = std::fs::read_to_string(&config).unwrap();
    assert!(written.contains("export = []") && written.contains(&creds), "{written}");
    let (_, section) = written.split_once("[cluster]\n").unwrap();
    world.start_with(
        "laptop",
        Setup { upstreams: &["mine"], cluster: &format!("{section}\nlisten"), ..Setup::default() },
    );
    eventually("the team's program at the laptop", || world.node("laptop").call("one__pid", &json!({})).ok());
    eventually("the laptop's own program", || world.node("laptop").call("mine__pid", &json!({})).ok());
    assert!(!world.node("team").tools().contains(&"mine__pid".to_owned()));
    let status = world.node("team").status();
    assert!(!status["owners"].to_string().contains("mine"), "{status}");
}
