//! Files become chunks: functions, methods and types where the language is known, windows of lines elsewhere.

use std::path::Path;

use ast_grep_core::Node;
use ast_grep_core::tree_sitter::{LanguageExt as _, StrDoc};
use ast_grep_language::SupportLang;
use serde::{Deserialize, Serialize};

use crate::language;

/// Lines of a window in files without known syntax, and how many it shares with the next.
const WINDOW: usize = 50;
const OVERLAP: usize = 10;
/// What of a chunk is indexed.
const MAX_TEXT: usize = 2000;
/// Changed whenever the same file would be cut differently.
pub(crate) const CHUNKER: u32 = 1;

/// What a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Function,
    Method,
    Class,
    Interface,
    Type,
    Module,
    Text,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Method => "method",
            Self::Class => "class",
            Self::Interface => "interface",
            Self::Type => "type",
            Self::Module => "module",
            Self::Text => "text",
        }
    }
}

/// One piece of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Chunk {
    pub(crate) kind: Kind,
    /// With the names around it: `Type/method`; empty for windows of lines.
    pub(crate) name: String,
    /// From 1.
    pub(crate) line: usize,
    pub(crate) end_line: usize,
    pub(crate) decorators: Vec<String>,
    pub(crate) is_async: bool,
    pub(crate) bases: Vec<String>,
    /// The comment before it.
    pub(crate) doc: String,
    /// Its source, from its first line on, shortened.
    pub(crate) text: String,
}

impl Chunk {
    /// The last part of the name.
    pub(crate) fn own_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }
}

type SourceNode<'a> = Node<'a, StrDoc<SupportLang>>;

/// The chunks of a file.
pub(crate) fn chunks(path: &Path, text: &str) -> Vec<Chunk> {
    let Some(language) = language::of_file(path).filter(|language| has_definitions(*language)) else {
        return windows(text);
    };
    let tree = language.ast_grep(text);
    let mut out = Vec::new();
    collect(&tree.root(), text, &mut Vec::new(), &mut out);
    if out.is_empty() { windows(text) } else { out }
}

fn has_definitions(language: SupportLang) -> bool {
    !matches!(language, SupportLang::Css | SupportLang::Html | SupportLang::Json | SupportLang::Yaml)
}

/// Walks the tree; `around` holds the names of the definitions that a node is in.
fn collect(node: &SourceNode<'_>, text: &str, around: &mut Vec<String>, out: &mut Vec<Chunk>) {
    for child in node.children() {
        let Some(kind) = kind_of(&child, around) else {
            collect(&child, text, around, out);
            continue;
        };
        let name = name_of(&child).unwrap_or_default();
        if name.is_empty() {
            collect(&child, text, around, out);
            continue;
        }
        around.push(name);
        if kind != Kind::Module {
            out.push(chunk(&child, kind, around.join("/"), text));
        }
        collect(&child, text, around, out);
        around.pop();
    }
}

/// What a node defines, if anything.
fn kind_of(node: &SourceNode<'_>, around: &[String]) -> Option<Kind> {
    let callable = if around.is_empty() { Kind::Function } else { Kind::Method };
    Some(match &*node.kind() {
        "function_definition"
        | "function_item"
        | "function_declaration"
        | "generator_function_declaration" => callable,
        "method_definition"
        | "method_declaration"
        | "method"
        | "singleton_method"
        | "constructor_declaration" => Kind::Method,
        "class_definition"
        | "class_declaration"
        | "abstract_class_declaration"
        | "class"
        | "struct_item"
        | "enum_item"
        | "record_declaration"
        | "enum_declaration" => Kind::Class,
        "interface_declaration" | "trait_item" | "trait_declaration" => Kind::Interface,
        "type_alias_declaration" | "type_spec" | "type_item" | "struct_specifier" | "macro_definition" => {
            Kind::Type
        }
        "impl_item" | "mod_item" | "module" | "internal_module" | "namespace_definition" => Kind::Module,
        "variable_declarator" if defines_function(node) => callable,
        _ => return None,
    })
}

/// `const name = () => …`
fn defines_function(node: &SourceNode<'_>) -> bool {
    node.field("value").is_some_and(|value| {
        matches!(&*value.kind(), "arrow_function" | "function_expression" | "generator_function")
    })
}

fn name_of(node: &SourceNode<'_>) -> Option<String> {
    if &*node.kind() == "impl_item" {
        return node.field("type").map(|name| name.text().into_owned());
    }
    if let Some(name) = node.field("name") {
        return Some(name.text().into_owned());
    }
    // C: the name is inside of one or more declarators.
    let mut declarator = node.field("declarator")?;
    while let Some(inner) = declarator.field("declarator") {
        declarator = inner;
    }
    Some(declarator.text().into_owned())
}

fn chunk(node: &SourceNode<'_>, kind: Kind, name: String, text: &str) -> Chunk {
    let outer = outermost(node);
    let (doc, decorators) = before(&outer);
    let (line, end_line) = (outer.start_pos().line() + 1, outer.end_pos().line() + 1);
    let mut decorators = decorators;
    decorators.extend(own_decorators(node, &outer));
    Chunk {
        kind,
        name,
        line,
        end_line,
        decorators,
        is_async: is_async(node),
        bases: bases(node),
        doc: truncated(&doc, MAX_TEXT),
        text: truncated(&text[line_start(text, node.range().start)..node.range().end], MAX_TEXT),
    }
}

/// A definition with what belongs to it: decorators of Python, `export`, `const`.
fn outermost<'a>(node: &SourceNode<'a>) -> SourceNode<'a> {
    let mut outer = node.clone();
    while let Some(parent) = outer.parent() {
        match &*parent.kind() {
            "decorated_definition" | "export_statement" | "lexical_declaration" | "type_declaration" => {
                outer = parent;
            }
            _ => break,
        }
    }
    outer
}

/// The comment and the attributes directly before a definition.
fn before(node: &SourceNode<'_>) -> (String, Vec<String>) {
    let (mut comments, mut decorators) = (Vec::new(), Vec::new());
    let mut next_line = node.start_pos().line();
    let mut previous = node.prev();
    while let Some(sibling) = previous {
        let kind = sibling.kind().into_owned();
        let text = sibling.text().trim_end().to_owned();
        let last_line = sibling.start_pos().line() + text.lines().count().saturating_sub(1);
        if last_line + 1 < next_line {
            break;
        }
        match kind.as_str() {
            "attribute_item" | "decorator" => decorators.push(decorator_name(&text)),
            kind if kind.contains("comment") => comments.push(text),
            _ => break,
        }
        next_line = sibling.start_pos().line();
        previous = sibling.prev();
    }
    comments.reverse();
    decorators.reverse();
    (comments.join("\n"), decorators)
}

/// Decorators inside of the definition's own node: Python, TypeScript, Java.
fn own_decorators<'a>(node: &SourceNode<'a>, outer: &SourceNode<'a>) -> Vec<String> {
    let modifiers = node.children().filter(|child| &*child.kind() == "modifiers");
    let inside = modifiers.flat_map(|modifiers| modifiers.children().collect::<Vec<_>>());
    let around = if outer.node_id() == node.node_id() { Vec::new() } else { outer.children().collect() };
    let own = node.children().chain(inside).chain(around);
    let own = own.filter(|child| matches!(&*child.kind(), "decorator" | "annotation" | "marker_annotation"));
    own.map(|child| decorator_name(&child.text())).collect()
}

/// `@app.route("/")` and `#[tokio::test]` without their marks and arguments.
pub(super) fn decorator_name(text: &str) -> String {
    let text = text.trim_start_matches(['@', '#', '[']).trim_end_matches(']');
    text.split('(').next().unwrap_or_default().trim().to_owned()
}

fn is_async(node: &SourceNode<'_>) -> bool {
    let function = node.field("value").unwrap_or_else(|| node.clone());
    let modifiers = function.children().find(|child| &*child.kind() == "function_modifiers");
    let in_modifiers =
        modifiers.is_some_and(|modifiers| modifiers.text().split_whitespace().any(|word| word == "async"));
    in_modifiers || function.children().any(|child| &*child.kind() == "async")
}

/// What a class extends or implements.
fn bases(node: &SourceNode<'_>) -> Vec<String> {
    let clauses =
        ["superclasses", "superclass", "interfaces"].into_iter().filter_map(|field| node.field(field));
    let heritage = node.children().filter(|child| {
        matches!(
            &*child.kind(),
            "class_heritage" | "base_clause" | "class_interface_clause" | "extends_type_clause"
        )
    });
    let names = |clause: SourceNode<'_>| {
        let text = clause.text().into_owned();
        let words = text.split(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '.' | '\\'));
        let words = words.filter(|word| !word.is_empty() && !matches!(*word, "extends" | "implements"));
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    clauses.chain(heritage).flat_map(names).collect()
}

/// Windows of lines, for text without definitions.
fn windows(text: &str) -> Vec<Chunk> {
    let lines: Vec<&str> = text.lines().collect();
    let mut out = Vec::new();
    let mut from = 0;
    while from < lines.len() {
        let to = (from + WINDOW).min(lines.len());
        let part = lines[from..to].join("\n");
        if !part.trim().is_empty() {
            out.push(Chunk {
                kind: Kind::Text,
                name: String::new(),
                line: from + 1,
                end_line: to,
                decorators: Vec::new(),
                is_async: false,
                bases: Vec::new(),
                doc: String::new(),
                text: truncated(&part, 2 * MAX_TEXT),
            });
        }
        if to == lines.len() {
            break;
        }
        from += WINDOW - OVERLAP;
    }
    out
}

fn line_start(text: &str, byte: usize) -> usize {
    text[..byte].rfind('\n').map_or(0, |at| at + 1)
}

fn truncated(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => text[..end].to_owned(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// `kind name line-end [decorators] async :bases` per chunk.
    fn check(path: &str, text: &str, expected: &[&str]) {
        let found: Vec<String> = chunks(Path::new(path), text)
            .iter()
            .map(|chunk| {
                let mut line =
                    format!("{} {} {}-{}", chunk.kind.name(), chunk.name, chunk.line, chunk.end_line);
                if !chunk.decorators.is_empty() {
                    let _ = write!(line, " {:?}", chunk.decorators);
                }
                if chunk.is_async {
                    line += " async";
                }
                if !chunk.bases.is_empty() {
                    let _ = write!(line, " :{}", chunk.bases.join(","));
                }
                line
            })
            .collect();
        assert_eq!(found, expected, "{path}");
    }

    #[test]
    fn python_definitions_have_decorators_and_bases() {
        check(
            "a.py",
            "import os\n\n@app.route(\"/\")\nasync def index(request):\n    return 1\n\nclass Dog(Animal, abc.ABC):\n    def bark(self):\n        pass\n",
            &[
                "function index 3-5 [\"app.route\"] async",
                "class Dog 7-9 :Animal,abc.ABC",
                "method Dog/bark 8-9",
            ],
        );
    }

    #[test]
    fn rust_definitions_are_named_by_their_impl() {
        check(
            "a.rs",
            "/// Doc.\n#[tokio::test]\nasync fn run() {}\n\nstruct Tree<T>(T);\n\nimpl<T> Tree<T> {\n    fn grow(&self) {}\n}\n",
            &["function run 3-3 [\"tokio::test\"] async", "class Tree 5-5", "method Tree<T>/grow 8-8"],
        );
        let doc = &chunks(Path::new("a.rs"), "/// Opens it.\nfn open() {}\n")[0].doc;
        assert_eq!(doc, "/// Opens it.");
    }

    #[test]
    fn other_languages_have_their_own_definitions() {
        check(
            "a.ts",
            "export const add = async (a: number) => a;\nexport class A extends B implements C {\n  run() {}\n}\ninterface I {}\n",
            &["function add 1-1 async", "class A 2-4 :B,C", "method A/run 3-3", "interface I 5-5"],
        );
        check(
            "a.go",
            "package a\n\nfunc (t *T) Run() {}\n\ntype T struct{}\n",
            &["method Run 3-3", "type T 5-5"],
        );
        check(
            "A.java",
            "class A extends B {\n  @Override\n  public void run() {}\n}\n",
            &["class A 1-4 :B", "method A/run 2-3 [\"Override\"]"],
        );
        check("a.c", "static int *add(int a) {\n  return 0;\n}\n", &["function add 1-3"]);
        check("a.rb", "class A < B\n  def run\n  end\nend\n", &["class A 1-4 :B", "method A/run 2-3"]);
        check(
            "a.php",
            "<?php\nclass A extends B {\n  function run() {}\n}\n",
            &["class A 2-4 :B", "method A/run 3-3"],
        );
        check("a.sh", "run() {\n  true\n}\n", &["function run 1-3"]);
    }

    #[test]
    fn text_is_cut_into_windows_that_overlap() {
        let text = (1..=100).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n");
        check("a.md", &text, &["text  1-50", "text  41-90", "text  81-100"]);
        check("a.py", "x = 1\n", &["text  1-1"]);
        check("a.md", "\n\n", &[]);
    }
}
