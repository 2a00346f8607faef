//! The arguments of `#[tool(…)]`.

use proc_macro2::Span;
use syn::parse::ParseStream;
use syn::{Error, Expr, Ident, LitBool, LitStr, Path, Result, Token};

use crate::braces::has_names_in_braces;

/// The kind of item that a function defines.
pub(crate) enum Kind {
    Tool,
    Prompt,
    Resource(LitStr),
    Template(LitStr),
    Completion { of: LitStr, argument: LitStr },
}

/// All options of the attribute of a function.
pub(crate) struct Attribute {
    pub(crate) kind: Kind,
    pub(crate) name: Option<LitStr>,
    pub(crate) title: Option<LitStr>,
    pub(crate) mime: Option<LitStr>,
    pub(crate) hints: [Option<bool>; 4],
    pub(crate) icons: Vec<LitStr>,
    pub(crate) task: Task,
    pub(crate) asks_first: bool,
    /// How long its tasks are kept, in seconds, if they last.
    pub(crate) keep: Option<u64>,
    pub(crate) resume: bool,
    pub(crate) check: Option<Path>,
    pub(crate) rules: Vec<LitStr>,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Task {
    Never,
    Allowed,
    Required,
}

const HINTS: [&str; 4] = ["read_only", "destructive", "idempotent", "open_world"];
const KEYS: [&str; 19] = [
    "name",
    "title",
    "icon",
    "read_only",
    "destructive",
    "idempotent",
    "open_world",
    "task",
    "asks_first",
    "keep",
    "resume",
    "check",
    "rule",
    "prompt",
    "resource",
    "template",
    "mime",
    "completes",
    "argument",
];

/// One option in the parentheses, with its value.
struct AttributeOption {
    key: Ident,
    value: Option<Expr>,
}

impl Attribute {
    pub(crate) fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut all: Vec<AttributeOption> = Vec::new();
        while !input.is_empty() {
            let key: Ident = input.parse().map_err(|error| {
                Error::new(error.span(), "expected a word such as `read_only` or `title = \"…\"`")
            })?;
            let value = if input.peek(Token![=]) {
                input.parse::<Token![=]>()?;
                Some(input.parse()?)
            } else {
                None
            };
            let is_twice = key != "icon" && key != "rule" && all.iter().any(|option| option.key == key);
            if is_twice {
                return Err(Error::new(key.span(), format!("duplicate option `{key}`")));
            }
            all.push(AttributeOption { key, value });
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Self::read(&all)
    }

    fn read(all: &[AttributeOption]) -> Result<Self> {
        let mut attribute = Self {
            kind: kind(all)?,
            name: None,
            title: None,
            mime: None,
            hints: [None; 4],
            icons: Vec::new(),
            task: Task::Never,
            asks_first: false,
            keep: None,
            resume: false,
            check: None,
            rules: Vec::new(),
        };
        for option in all {
            attribute.take(option)?;
        }
        attribute.check_together(all)?;
        Ok(attribute)
    }

    /// Checks options that depend on each other.
    fn check_together(&self, all: &[AttributeOption]) -> Result<()> {
        let wrong = |key: &str, what: &str| {
            let word = all.iter().find(|word| word.key == key);
            Err(Error::new(word.map_or_else(Span::call_site, |word| word.key.span()), what))
        };
        if self.hints[0] == Some(true) && self.hints[1] == Some(true) {
            return wrong(
                "destructive",
                "a tool that is `read_only` destroys nothing: remove one of the two",
            );
        }
        if self.asks_first && self.task == Task::Never {
            return wrong("asks_first", "`asks_first` only works with tasks: add `task`");
        }
        if self.keep.is_some() && self.task == Task::Never {
            return wrong("keep", "`keep` only works with tasks: add `task`");
        }
        if self.resume && self.keep.is_none() {
            return wrong("resume", "only tasks that last are resumed: add `keep = \"7d\"`");
        }
        match (&self.check, self.rules.is_empty()) {
            (Some(_), true) => wrong("check", "describe for models what this requires: `rule = \"…\"`"),
            (None, false) => wrong("rule", "`rule` describes what `check` requires: add `check = function`"),
            _ => Ok(()),
        }
    }

    fn take(&mut self, option: &AttributeOption) -> Result<()> {
        let key = option.key.to_string();
        option.check_kind(&self.kind)?;
        match key.as_str() {
            "name" => self.name = Some(option.checked_name()?),
            "title" => self.title = Some(option.text()?),
            "mime" => self.mime = Some(option.text()?),
            "icon" => self.icons.push(option.text()?),
            "task" => self.task = option.task()?,
            "asks_first" => self.asks_first = option.flag()?,
            "keep" => self.keep = Some(option.duration()?),
            "resume" => self.resume = option.flag()?,
            "check" => self.check = Some(option.path()?),
            "rule" => self.rules.push(option.words()?),
            "prompt" | "resource" | "template" | "completes" | "argument" => {}
            key => match HINTS.iter().position(|hint| *hint == key) {
                Some(at) => self.hints[at] = Some(option.flag()?),
                None => return Err(unknown(&option.key)),
            },
        }
        Ok(())
    }
}

fn kind(all: &[AttributeOption]) -> Result<Kind> {
    let find = |key: &str| all.iter().find(|option| option.key == key);
    let kinds: Vec<&AttributeOption> =
        ["prompt", "resource", "template", "completes"].iter().filter_map(|key| find(key)).collect();
    if let [_, second, ..] = kinds.as_slice() {
        return Err(Error::new(
            second.key.span(),
            "a function is one thing: a tool, a prompt, a resource, a template or a completion",
        ));
    }
    let Some(option) = kinds.first() else { return Ok(Kind::Tool) };
    match option.key.to_string().as_str() {
        "prompt" => option.bare().map(|()| Kind::Prompt),
        "resource" => option.uri(false).map(Kind::Resource),
        "template" => option.uri(true).map(Kind::Template),
        _ => {
            let argument = find("argument").ok_or_else(|| {
                Error::new(option.key.span(), "name the argument that is completed: `argument = \"…\"`")
            })?;
            Ok(Kind::Completion { of: option.text()?, argument: argument.text()? })
        }
    }
}

fn unknown(key: &Ident) -> Error {
    Error::new(key.span(), format!("`{key}` is not known here; there are: {}", KEYS.join(", ")))
}

impl AttributeOption {
    /// Whether this option makes sense for this kind of function.
    fn check_kind(&self, kind: &Kind) -> Result<()> {
        let (fits, of) = match self.key.to_string().as_str() {
            "read_only" | "destructive" | "idempotent" | "open_world" | "task" | "asks_first" | "keep"
            | "resume" | "check" | "rule" => (matches!(kind, Kind::Tool), "tools"),
            "mime" => (matches!(kind, Kind::Resource(_) | Kind::Template(_)), "resources and templates"),
            "argument" => (matches!(kind, Kind::Completion { .. }), "`completes`"),
            "name" | "title" | "icon" => {
                (!matches!(kind, Kind::Completion { .. }), "what is listed, and completions are not")
            }
            _ => return Ok(()),
        };
        if fits { Ok(()) } else { Err(self.wrong(&format!("is only for {of}"))) }
    }

    fn wrong(&self, what: &str) -> Error {
        Error::new(self.key.span(), format!("`{}` {what}", self.key))
    }

    fn bare(&self) -> Result<()> {
        if self.value.is_some() { Err(self.wrong("has no value")) } else { Ok(()) }
    }

    fn literal<T: syn::parse::Parse>(&self, wanted: &str) -> Result<T> {
        let value = self.value.as_ref().ok_or_else(|| self.wrong(&format!("needs a value: {wanted}")))?;
        syn::parse2(quote::quote!(#value))
            .map_err(|_| Error::new_spanned(value, format!("`{}` must be {wanted}", self.key)))
    }

    fn text(&self) -> Result<LitStr> {
        self.literal("text in quotes")
    }

    /// Text that is not blank.
    fn words(&self) -> Result<LitStr> {
        let text = self.text()?;
        if text.value().trim().is_empty() {
            return Err(Error::new(text.span(), "describe for models what `check` requires"));
        }
        Ok(text)
    }

    fn flag(&self) -> Result<bool> {
        if self.value.is_none() {
            return Ok(true);
        }
        self.literal::<LitBool>("`true` or `false`").map(|flag| flag.value)
    }

    fn path(&self) -> Result<Path> {
        self.literal("the name of a function")
    }

    fn task(&self) -> Result<Task> {
        match &self.value {
            None => Ok(Task::Allowed),
            Some(_) if self.text()?.value() == "required" => Ok(Task::Required),
            Some(value) => Err(Error::new_spanned(value, "write `task`, or `task = \"required\"`")),
        }
    }

    /// In seconds.
    fn duration(&self) -> Result<u64> {
        let text = self.text()?;
        seconds(&text.value()).ok_or_else(|| {
            Error::new(text.span(), "write a time of at most 365 days such as \"30m\", \"12h\" or \"7d\"")
        })
    }

    fn checked_name(&self) -> Result<LitStr> {
        let name = self.text()?;
        let text = name.value();
        let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if text.is_empty() || text.len() > 64 || !text.chars().all(is_legal) {
            let message = "models accept names of 1 to 64 letters, digits, `_` and `-`";
            return Err(Error::new(name.span(), message));
        }
        Ok(name)
    }

    fn uri(&self, has_variables: bool) -> Result<LitStr> {
        let uri = self.text()?;
        let text = uri.value();
        let wrong = |what: &str| Err(Error::new(uri.span(), what));
        let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
        if scheme.is_empty() || !scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)) {
            return wrong("a URI begins with a scheme, such as `notes://`");
        }
        if text.matches('{').count() != text.matches('}').count() {
            return wrong("every `{` needs a `}`");
        }
        match (has_variables, text.contains('{')) {
            (true, true) if !has_names_in_braces(&text) => {
                wrong("a variable is a name in braces, `{id}`, or `{+path}` if it may contain `/`")
            }
            (true, false) => {
                wrong("a template has variables, such as `notes://{id}`; without one it is a `resource`")
            }
            (false, true) => wrong("a resource is one URI; with variables it is a `template`"),
            _ => Ok(uri),
        }
    }
}

/// A whole number with its unit.
fn seconds(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    let seconds = digits.parse::<u64>().ok()?.checked_mul(unit)?;
    (1..=365 * 86_400).contains(&seconds).then_some(seconds)
}
