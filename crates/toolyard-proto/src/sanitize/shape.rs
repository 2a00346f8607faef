//! The requirements of the protocol for the entries of its four lists, as far as clients check it: the members that are
//! known, whether an entry can do without them, and what they hold. Members that are not named here pass.

/// The kind of a value.
#[derive(Debug)]
pub(super) enum Shape {
    Text,
    Number,
    /// A number from 0 to 1.
    Share,
    /// A moment as RFC 3339 writes it.
    Moment,
    Flag,
    /// One of these texts.
    Word(&'static [&'static str]),
    /// A JSON Schema inside another: an object, or a truth value.
    Schema,
    List(&'static Shape),
    /// An object with any names, and values of one shape.
    Map(&'static Shape),
    Object(&'static [Field]),
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) need: Need,
    pub(super) shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Without it the entry is invalid.
    Must,
    /// If it is invalid, it can be removed.
    May,
    /// It may be absent; but if it is invalid, so is the value that contains it.
    Right,
    /// It can only have this value, which is added if it is absent.
    Always(&'static str),
}

impl Shape {
    /// The end of a sentence about a value that does not have this shape.
    pub(super) fn is_not(&self) -> String {
        match self {
            Self::Text => "is not a text".to_owned(),
            Self::Number => "is not a number".to_owned(),
            Self::Share => "is not a number from 0 to 1".to_owned(),
            Self::Moment => "is not a time such as `2026-07-28T00:00:00Z`".to_owned(),
            Self::Flag => "is not true or false".to_owned(),
            Self::Word(words) => format!("is not `{}`", words.join("` or `")),
            Self::Schema => "is not a schema".to_owned(),
            Self::List(_) => "is not a list".to_owned(),
            Self::Map(_) | Self::Object(_) => "is not an object".to_owned(),
        }
    }
}

const fn must(name: &'static str, shape: Shape) -> Field {
    Field { name, need: Need::Must, shape }
}

const fn may(name: &'static str, shape: Shape) -> Field {
    Field { name, need: Need::May, shape }
}

const fn right(name: &'static str, shape: Shape) -> Field {
    Field { name, need: Need::Right, shape }
}

pub(super) static TOOL: Shape = Shape::Object(&[
    must("name", Shape::Text),
    may("title", Shape::Text),
    may("description", Shape::Text),
    must("inputSchema", INPUT_SCHEMA),
    // Legacy clients want an object here, too; `legacy::tool_for` ensures that.
    may("outputSchema", Shape::Object(&[SCHEMA, PROPERTIES, REQUIRED])),
    may(
        "annotations",
        Shape::Object(&[
            may("title", Shape::Text),
            may("readOnlyHint", Shape::Flag),
            may("destructiveHint", Shape::Flag),
            may("idempotentHint", Shape::Flag),
            may("openWorldHint", Shape::Flag),
        ]),
    ),
    may(
        "execution",
        Shape::Object(&[may("taskSupport", Shape::Word(&["forbidden", "optional", "required"]))]),
    ),
    may("icons", ICONS),
    may("_meta", ANY_OBJECT),
]);

pub(super) static PROMPT: Shape = Shape::Object(&[
    must("name", Shape::Text),
    may("title", Shape::Text),
    may("description", Shape::Text),
    may(
        "arguments",
        Shape::List(&Shape::Object(&[
            must("name", Shape::Text),
            may("title", Shape::Text),
            may("description", Shape::Text),
            may("required", Shape::Flag),
        ])),
    ),
    may("icons", ICONS),
    may("_meta", ANY_OBJECT),
]);

pub(super) static RESOURCE: Shape = Shape::Object(&[
    must("uri", Shape::Text),
    must("name", Shape::Text),
    may("title", Shape::Text),
    may("description", Shape::Text),
    may("mimeType", Shape::Text),
    may("size", Shape::Number),
    may("annotations", ANNOTATIONS),
    may("icons", ICONS),
    may("_meta", ANY_OBJECT),
]);

pub(super) static TEMPLATE: Shape = Shape::Object(&[
    must("uriTemplate", Shape::Text),
    must("name", Shape::Text),
    may("title", Shape::Text),
    may("description", Shape::Text),
    may("mimeType", Shape::Text),
    may("annotations", ANNOTATIONS),
    may("icons", ICONS),
    may("_meta", ANY_OBJECT),
]);

const ANY_OBJECT: Shape = Shape::Object(&[]);

/// Arguments are always an object, so a schema without a type means an object, too.
const INPUT_SCHEMA: Shape = Shape::Object(&[
    Field { name: "type", need: Need::Always("object"), shape: Shape::Word(&["object"]) },
    SCHEMA,
    PROPERTIES,
    REQUIRED,
]);

const SCHEMA: Field = right("$schema", Shape::Text);
const PROPERTIES: Field = right("properties", Shape::Map(&Shape::Schema));
const REQUIRED: Field = right("required", Shape::List(&Shape::Text));

const ANNOTATIONS: Shape = Shape::Object(&[
    may("audience", Shape::List(&Shape::Word(&["user", "assistant"]))),
    may("priority", Shape::Share),
    may("lastModified", Shape::Moment),
]);

const ICONS: Shape = Shape::List(&Shape::Object(&[
    must("src", Shape::Text),
    may("mimeType", Shape::Text),
    may("sizes", Shape::List(&Shape::Text)),
    may("theme", Shape::Word(&["light", "dark"])),
]));
