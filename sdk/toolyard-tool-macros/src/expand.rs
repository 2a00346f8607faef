//! The code that is generated beside the function, which itself is unchanged.
//!
//! A type takes the function's name (types and functions have separate names in Rust), so that it can be
//! named when it is added to a set: `.with::<name>()`. It is an empty enum: there are no values of it.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{ItemFn, LitStr, Type};

use crate::attribute::{Attribute, Kind, Task};
use crate::signature::{Parameter, Signature};

pub(crate) fn expand(
    attribute: &Attribute,
    function: &ItemFn,
    docs: &str,
    signature: &Signature,
) -> TokenStream {
    let (name, vis) = (&function.sig.ident, &function.vis);
    let item = item(attribute, function, docs, signature);
    quote! {
        #[allow(clippy::unused_async, clippy::needless_pass_by_value, reason = "a tool's signature determines how it is served")]
        #function

        #[doc(hidden)]
        #[allow(non_camel_case_types, reason = "it goes by the name of the function")]
        #[derive(Debug)]
        #vis enum #name {}

        const _: () = {
            #item
        };
    }
}

/// The message about a mistake, with everything that other code may refer to.
pub(crate) fn mistaken(error: &syn::Error, item: &TokenStream) -> TokenStream {
    let message = error.to_compile_error();
    // A type cannot be defined beside a method.
    let function =
        syn::parse2::<ItemFn>(item.clone()).ok().filter(|function| function.sig.receiver().is_none());
    let Some(function) = function else { return quote!(#message #item) };
    let (name, vis) = (&function.sig.ident, &function.vis);
    quote! {
        #message

        #[allow(dead_code, unused, clippy::all, reason = "the mistake comes first")]
        #function

        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code, reason = "it goes by the name of the function")]
        #[derive(Debug)]
        #vis enum #name {}

        impl ::toolyard_tool::private::Item for #name {
            type Wants = ::toolyard_tool::private::Nothing;

            fn entry(_: ::toolyard_tool::private::Source<Self::Wants>) -> ::toolyard_tool::private::Entry {
                ::core::unreachable!()
            }
        }
    }
}

/// Passes the function to the library.
fn item(attribute: &Attribute, function: &ItemFn, docs: &str, signature: &Signature) -> TokenStream {
    let name = &function.sig.ident;
    let wants = signature.state().map_or_else(
        || quote!(::toolyard_tool::private::Nothing),
        |state| quote!(::toolyard_tool::private::Needs<#state>),
    );
    let call = call(function, signature);
    let about = about(attribute, name.to_string().trim_start_matches("r#"), docs);
    let no_arguments = || quote!(::toolyard_tool::private::NoArguments);
    let arguments = signature.arguments().map_or_else(no_arguments, ToTokens::to_token_stream);
    let answer = signature.good.as_ref().unwrap_or(&signature.output);
    let make = make(attribute, &wants, &arguments, answer);
    let check = match (&attribute.kind, &attribute.check) {
        (Kind::Tool, Some(_)) => quote!(::toolyard_tool::private::Option::Some(CHECK),),
        (Kind::Tool, None) => quote!(::toolyard_tool::private::Option::None,),
        _ => quote!(),
    };
    // Apart, so that the compiler reports a function of another type in a single line.
    let checked = attribute.check.as_ref().map(|check| {
        quote_spanned!(check.span()=> const CHECK: ::toolyard_tool::private::Check<#arguments> = #check;)
    });
    quote! {
        impl ::toolyard_tool::private::Item for #name {
            type Wants = #wants;

            fn entry(source: ::toolyard_tool::private::Source<Self::Wants>) -> ::toolyard_tool::private::Entry {
                #checked
                #make(#about, #check source, #call)
            }
        }
    }
}

/// The library's function for this kind, with the types of this function.
fn make(attribute: &Attribute, wants: &TokenStream, arguments: &TokenStream, output: &Type) -> TokenStream {
    let output = quote_spanned!(output.span()=> #output);
    match &attribute.kind {
        Kind::Tool => quote!(::toolyard_tool::private::tool::<#wants, #arguments, #output>),
        Kind::Prompt => quote!(::toolyard_tool::private::prompt::<#wants, #arguments, #output>),
        Kind::Resource(_) => quote!(::toolyard_tool::private::resource::<#wants, #output>),
        Kind::Template(_) => quote!(::toolyard_tool::private::template::<#wants, #arguments, #output>),
        Kind::Completion { .. } => quote!(::toolyard_tool::private::completion::<#wants, #output>),
    }
}

/// A closure from state, context and arguments to a run of the function.
fn call(function: &ItemFn, signature: &Signature) -> TokenStream {
    let name = &function.sig.ident;
    let values = signature.parameters.iter().map(|one| match one {
        Parameter::State(_) => quote!(&*state),
        Parameter::Context { by_reference: true } => quote!(&context),
        Parameter::Context { by_reference: false } => quote!(context),
        Parameter::Arguments(_) => quote!(arguments),
    });
    let named = |is_used: bool, name: TokenStream| if is_used { name } else { quote!(_) };
    let state = named(signature.state().is_some(), quote!(state));
    let context = named(signature.has_context(), quote!(context));
    let arguments = named(signature.arguments().is_some(), quote!(arguments));
    let span = name.span();
    let called = if function.sig.asyncness.is_some() {
        quote_spanned!(span=> #name(#(#values),*).await)
    } else {
        quote_spanned!(span=> #name(#(#values),*))
    };
    let result = if signature.good.is_some() {
        quote_spanned! {signature.output.span()=>
            ::core::result::Result::map_err(#called, ::toolyard_tool::private::Failure::into_tool_error)
        }
    } else {
        quote!(::core::result::Result::Ok(#called))
    };
    let run = if function.sig.asyncness.is_some() {
        quote_spanned! {span=>
            ::toolyard_tool::private::Run::Async(::toolyard_tool::private::Box::pin(async move { #result }))
        }
    } else {
        quote_spanned! {span=>
            ::toolyard_tool::private::Run::Blocking(::toolyard_tool::private::Box::new(move || #result))
        }
    };
    quote!(|#state, #context, #arguments| #run)
}

/// The description of the function that is passed to the library.
fn about(attribute: &Attribute, function_name: &str, docs: &str) -> TokenStream {
    let name = attribute.name.as_ref().map_or_else(|| function_name.to_owned(), LitStr::value);
    let (title, mime) = (option(attribute.title.as_ref()), option(attribute.mime.as_ref()));
    let icons = &attribute.icons;
    match &attribute.kind {
        Kind::Tool => about_tool(attribute, &name, docs),
        Kind::Prompt => {
            quote! {
                ::toolyard_tool::private::AboutPrompt {
                    name: #name, title: #title, description: #docs, icons: &[#(#icons),*],
                }
            }
        }
        Kind::Resource(uri) | Kind::Template(uri) => quote! {
            ::toolyard_tool::private::AboutResource {
                uri: #uri, name: #name, title: #title, description: #docs, mime: #mime, icons: &[#(#icons),*],
            }
        },
        Kind::Completion { of, argument } => {
            quote!(::toolyard_tool::private::AboutCompletion { of: #of, argument: #argument })
        }
    }
}

fn about_tool(attribute: &Attribute, name: &str, docs: &str) -> TokenStream {
    let (title, icons) = (option(attribute.title.as_ref()), &attribute.icons);
    let [read_only, destructive, idempotent, open_world] =
        [0, 1, 2, 3].map(|at| option(attribute.hints[at].as_ref()));
    let task = match attribute.task {
        Task::Never => quote!(Never),
        Task::Allowed => quote!(Allowed),
        Task::Required => quote!(Required),
    };
    let (asks_first, rules) = (attribute.asks_first, &attribute.rules);
    let (keep, resume) = (option(attribute.keep.as_ref()), attribute.resume);
    quote! {
        ::toolyard_tool::private::AboutTool {
            name: #name,
            title: #title,
            description: #docs,
            hints: ::toolyard_tool::private::Hints {
                read_only: #read_only,
                destructive: #destructive,
                idempotent: #idempotent,
                open_world: #open_world,
            },
            icons: &[#(#icons),*],
            task: ::toolyard_tool::private::TaskUse::#task,
            asks_first: #asks_first,
            keep: #keep,
            resume: #resume,
            rules: &[#(#rules),*],
        }
    }
}

fn option(value: Option<&impl ToTokens>) -> TokenStream {
    value.map_or_else(
        || quote!(::toolyard_tool::private::Option::None),
        |value| quote!(::toolyard_tool::private::Option::Some(#value)),
    )
}
