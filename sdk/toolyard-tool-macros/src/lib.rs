//! The `#[tool]` attribute of `toolyard-tool`, and nothing else: it reads a function and forwards it to the
//! library, which does the work. Its documentation is there.

mod attribute;
mod braces;
mod docs;
mod expand;
mod signature;

use proc_macro::TokenStream;
use syn::parse::Parser;

/// Makes a function something that a `ToolSet` can offer; see `toolyard_tool`'s documentation.
#[proc_macro_attribute]
pub fn tool(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let item = proc_macro2::TokenStream::from(item);
    let expanded = attribute::Attribute::parse.parse(arguments).and_then(|attribute| {
        let function = signature::function(item.clone())?;
        let docs = docs::description(&function)?;
        let signature = signature::Signature::read(&function, &attribute.kind)?;
        if attribute.asks_first {
            signature.check_asks(&function)?;
        }
        Ok(expand::expand(&attribute, &function, &docs, &signature))
    });
    // The function stays where it is, with a type beside it as usual, so that one mistake has one message.
    expanded.unwrap_or_else(|error| expand::mistaken(&error, &item)).into()
}
