//! The `#[tool]` attribute of `toolyard-tool`, and nothing else: it reads a function and forwards it to the
//! library, which does the work. Its documentation is there.

mod attribute;
mod docs;
mod expand;
mod signature;

use proc_macro::TokenStream;
use syn::parse::Parser;

/// Makes a function something that a `ToolSet` can offer; see `toolyard_tool`'s documentation.
#[proc_macro_attribute]
pub fn tool(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let expanded = attribute::Attribute::parse.parse(arguments).and_then(|attribute| {
        let function = signature::function(item.into())?;
        let docs = docs::description(&function)?;
        let signature = signature::Signature::read(&function, &attribute.kind)?;
        Ok(expand::expand(&attribute, &function, &docs, &signature))
    });
    expanded.unwrap_or_else(|error| error.to_compile_error()).into()
}
