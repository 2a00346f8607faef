//! The signature of a function: its state, its context, its arguments, its answer.

use proc_macro2::TokenStream;
use syn::spanned::Spanned;
use syn::{
    Error, FnArg, GenericArgument, ItemFn, PathArguments, PathSegment, Result, ReturnType, Safety, Type,
    TypePath, TypeReference,
};

use crate::attribute::Kind;

/// One parameter, by what it is for.
pub(crate) enum Parameter {
    State(Type),
    /// By reference, or owned.
    Context {
        by_reference: bool,
    },
    Arguments(Type),
}

pub(crate) struct Signature {
    pub(crate) parameters: Vec<Parameter>,
    /// As written.
    pub(crate) output: Type,
    /// The type that the function returns if it does not fail; `None` if it cannot fail.
    pub(crate) good: Option<Type>,
}

pub(crate) fn function(item: TokenStream) -> Result<ItemFn> {
    let span = item.span();
    // The compiler has checked the syntax already, so that anything else is another kind of item.
    syn::parse2(item).map_err(|_| Error::new(span, "`#[tool]` goes over a free function with a body"))
}

impl Signature {
    pub(crate) fn read(function: &ItemFn, kind: &Kind) -> Result<Self> {
        refuse_strange(function)?;
        let parameters = function.sig.inputs.iter().map(parameter).collect::<Result<Vec<_>>>()?;
        refuse_twice(function, &parameters)?;
        let output = output(&function.sig.output)?;
        let signature = Self { parameters, good: good_half(&output)?, output };
        signature.check_kind(function, kind)?;
        Ok(signature)
    }

    pub(crate) fn state(&self) -> Option<&Type> {
        self.parameters.iter().find_map(|one| match one {
            Parameter::State(state) => Some(state),
            _ => None,
        })
    }

    pub(crate) fn arguments(&self) -> Option<&Type> {
        self.parameters.iter().find_map(|one| match one {
            Parameter::Arguments(arguments) => Some(arguments),
            _ => None,
        })
    }

    pub(crate) fn has_context(&self) -> bool {
        self.parameters.iter().any(|one| matches!(one, Parameter::Context { .. }))
    }

    /// Whether it can ask questions: it needs a context for that.
    pub(crate) fn check_asks(&self, function: &ItemFn) -> Result<()> {
        if function.sig.asyncness.is_some() && self.has_context() {
            return Ok(());
        }
        let message = "a tool that `asks_first` is an `async fn` that takes a `&Context`, to ask with";
        Err(Error::new(function.sig.ident.span(), message))
    }

    fn check_kind(&self, function: &ItemFn, kind: &Kind) -> Result<()> {
        let name = function.sig.ident.span();
        match (kind, self.arguments()) {
            (Kind::Resource(_), Some(arguments)) => Err(Error::new_spanned(
                arguments,
                "a resource at one URI takes no arguments; with variables in its URI it is a `template`",
            )),
            (Kind::Template(_), None) => {
                Err(Error::new(name, "a template takes a struct with one field for each variable of its URI"))
            }
            (Kind::Completion { .. }, arguments) if arguments.is_none_or(|one| last(one) != "Typed") => {
                Err(Error::new(name, "a completion takes `typed: Typed`, what the user has typed so far"))
            }
            _ => Ok(()),
        }
    }
}

fn refuse_strange(function: &ItemFn) -> Result<()> {
    let signature = &function.sig;
    if !signature.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &signature.generics,
            "a tool cannot be generic: its schema must be known here",
        ));
    }
    if let Some(constness) = &signature.constness {
        return Err(Error::new_spanned(constness, "a tool runs when it is called: remove `const`"));
    }
    if let Safety::Unsafe(word) = &signature.safety {
        return Err(Error::new_spanned(word, "a tool must be safe to call with any arguments"));
    }
    if let Some(abi) = &signature.abi {
        return Err(Error::new_spanned(abi, "a tool is an ordinary Rust function: remove `extern`"));
    }
    Ok(())
}

fn parameter(input: &FnArg) -> Result<Parameter> {
    let FnArg::Typed(input) = input else {
        return Err(Error::new_spanned(
            input,
            "a tool is a free function: take the state by reference (`library: &Library`) instead of `self`",
        ));
    };
    match &*input.ty {
        Type::Reference(reference) => borrowed(reference),
        Type::ImplTrait(_) => {
            Err(Error::new_spanned(&input.ty, "arguments need a named type: its schema is what models read"))
        }
        ty if last(ty) == "Context" => Ok(Parameter::Context { by_reference: false }),
        ty if has_no_names(ty) => Err(Error::new_spanned(
            ty,
            "every argument has a name and a description: put it into a struct that derives `Deserialize` and `JsonSchema`",
        )),
        ty => Ok(Parameter::Arguments(ty.clone())),
    }
}

fn borrowed(reference: &TypeReference) -> Result<Parameter> {
    if reference.mutability.is_some() {
        return Err(Error::new_spanned(
            reference,
            "calls run at the same time: take `&T`, and put what changes into a `Mutex`",
        ));
    }
    let inner = &*reference.elem;
    if matches!(inner, Type::Slice(_)) || last(inner) == "str" {
        return Err(Error::new_spanned(
            reference,
            "arguments are owned: put a `String` or `Vec` into a struct that derives `Deserialize` and `JsonSchema`",
        ));
    }
    if last(inner) == "Context" {
        return Ok(Parameter::Context { by_reference: true });
    }
    Ok(Parameter::State(inner.clone()))
}

fn refuse_twice(function: &ItemFn, parameters: &[Parameter]) -> Result<()> {
    for (at, one) in parameters.iter().enumerate() {
        let is_the_same = |other: &Parameter| std::mem::discriminant(other) == std::mem::discriminant(one);
        if !parameters[..at].iter().any(is_the_same) {
            continue;
        }
        let message = match one {
            Parameter::Arguments(_) => "a tool takes one struct of arguments: put all of them into it",
            Parameter::State(_) => "a set has one state: put everything that its tools share into one struct",
            Parameter::Context { .. } => "one `Context` is enough",
        };
        return Err(Error::new_spanned(&function.sig.inputs[at], message));
    }
    Ok(())
}

fn output(output: &ReturnType) -> Result<Type> {
    let ReturnType::Type(_, ty) = output else { return Ok(syn::parse_quote!(())) };
    match &**ty {
        Type::ImplTrait(_) => {
            Err(Error::new_spanned(ty, "the answer needs a named type: its schema is what clients read"))
        }
        Type::Reference(reference)
            if reference.lifetime.as_ref().is_none_or(|name| name.ident != "static") =>
        {
            Err(Error::new_spanned(ty, "the answer outlives the call: return an owned value"))
        }
        ty => Ok(ty.clone()),
    }
}

/// The success type of a `Result`.
fn good_half(ty: &Type) -> Result<Option<Type>> {
    let types: Vec<&Type> = match last_segment(ty) {
        Some(PathSegment { ident, arguments: PathArguments::AngleBracketed(arguments), .. })
            if ident == "Result" =>
        {
            arguments.args.iter().filter_map(type_argument).collect()
        }
        _ => return Ok(None),
    };
    match types.as_slice() {
        [_, error] if matches!(error, Type::Reference(_)) || last(error) == "String" => {
            Err(Error::new_spanned(
                error,
                "a tool fails with `ToolError`: make one with `ToolError::new(…)`, or with `?` from any error",
            ))
        }
        [good, ..] => Ok(Some((*good).clone())),
        [] => Ok(None),
    }
}

fn type_argument(argument: &GenericArgument) -> Option<&Type> {
    match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    }
}

const WITHOUT_NAMES: [&str; 20] = [
    "String", "bool", "char", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128",
    "isize", "f32", "f64", "Vec", "Option", "PathBuf",
];

fn has_no_names(ty: &Type) -> bool {
    matches!(ty, Type::Tuple(_) | Type::Array(_)) || WITHOUT_NAMES.iter().any(|name| last(ty) == *name)
}

/// The last segment of a path type; empty for everything else.
fn last(ty: &Type) -> String {
    last_segment(ty).map(|segment| segment.ident.to_string()).unwrap_or_default()
}

fn last_segment(ty: &Type) -> Option<&PathSegment> {
    match ty {
        Type::Path(TypePath { path, .. }) => path.segments.last(),
        _ => None,
    }
}
