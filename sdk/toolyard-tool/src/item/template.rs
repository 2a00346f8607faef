//! Resources at many URIs: a pattern such as `notes://{id}`, whose variables are the function's arguments.

mod pattern;

use toolyard_proto::Raw;

use super::Entry;
use super::resource::{AboutResource, Readable, define};
use crate::arguments::{Arguments, Reader};
use crate::run::{Call, Runner, runner};
use crate::state::{Source, Wanted};

pub(crate) use pattern::Pattern;

/// A URI that matches a template, with the values of its variables.
pub(crate) struct Asked {
    pub(crate) uri: String,
    pub(crate) variables: Vec<(String, String)>,
}

/// A template of a set.
#[doc(hidden)]
pub struct Template {
    pub(crate) uri: &'static str,
    pub(crate) pattern: Pattern,
    pub(crate) definition: Raw,
    pub(crate) read: Runner<Asked, Raw>,
}

/// Makes a template from a function. Called by the attribute's code.
///
/// Panics if the variables of the URI are not the fields of the arguments.
#[doc(hidden)]
pub fn template<W: Wanted, A: Arguments, O: Readable>(
    about: AboutResource,
    source: Source<W>,
    call: Call<W, A, O>,
) -> Entry {
    let reader = Reader::<A>::new(about.name, None);
    let pattern = Pattern::new(about.uri);
    for name in pattern.variables() {
        let is_field = reader.fields().any(|(field, _)| field == name);
        assert!(is_field, "`{}` has the variable `{name}`, but its arguments have no such field", about.uri);
    }
    // The URI travels beside the arguments, since the content repeats it.
    let shared = std::sync::Arc::new(reader);
    let inner = runner(
        about.name,
        source,
        call,
        move |variables: Vec<(String, String)>| shared.read_texts(variables),
        |output: O| Ok(output.into_contents()),
    );
    let read: Runner<Asked, Raw> = std::sync::Arc::new(move |asked: Asked, context| {
        let reading = inner(asked.variables, context);
        Box::pin(async move { Ok(reading.await?.into_raw(&asked.uri, about.mime)) })
    });
    Entry::Template(Template { uri: about.uri, pattern, definition: define(&about, "uriTemplate"), read })
}

impl std::fmt::Debug for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Template({})", self.uri)
    }
}
