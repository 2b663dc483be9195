"""A deterministic shop: families of near-duplicates, tasks with soft constraints, price traps and conflicts.

`generate(preset, seed)` is a pure function. What each draw decides is in the address of the draw.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from intraskill.environments.shopworld.catalogue import Catalogue, OptionValue, Product
from intraskill.environments.shopworld.reward import Goal, budget_of
from intraskill.environments.shopworld.task import ShopTask
from intraskill.method.errors import ConfigError
from intraskill.method.randomness import shuffled, uniform


@dataclass(frozen=True, slots=True)
class PlainDomain:
    """One department.

    Attributes:
        name: first category node.
        aisles: second category node → product types (head nouns).
        facets: facet name → its possible values; a product has one value of each.
        sizes: values of the size axis.
    """

    name: str
    aisles: dict[str, tuple[str, ...]]
    facets: dict[str, tuple[str, ...]]
    sizes: tuple[str, ...]


COLORS = ("red", "blue", "green", "black", "white", "pink", "grey", "brown")

BRANDS = (
    "nova", "lumen", "zephyr", "orbit", "alpine", "terra", "vesta", "kestrel",
    "marlow", "juniper", "saffron", "cobalt", "onyx", "tundra", "bramble", "corvus",
)  # fmt: skip

DOMAINS = (
    PlainDomain(
        "clothing",
        {"outerwear": ("jacket", "coat", "hoodie"), "basics": ("shirt", "sweater", "trousers")},
        {
            "material": ("cotton", "wool", "linen", "fleece", "denim"),
            "feature": ("waterproof", "windproof", "stretchy", "breathable", "washable"),
            "style": ("vintage", "casual", "formal", "sporty"),
            "fit": ("slim", "loose", "cropped", "straight"),
        },
        ("small", "medium", "large"),
    ),
    PlainDomain(
        "kitchen",
        {"drinkware": ("mug", "bottle", "teapot"), "cookware": ("pan", "kettle", "bowl")},
        {
            "material": ("ceramic", "steel", "glass", "bamboo", "copper"),
            "feature": ("insulated", "stackable", "leakproof", "nonstick", "foldable"),
            "style": ("rustic", "modern", "handmade", "classic"),
            "finish": ("matte", "glossy", "speckled", "brushed"),
        },
        ("mini", "regular", "jumbo"),
    ),
    PlainDomain(
        "home",
        {"bedding": ("blanket", "pillow", "duvet"), "decor": ("lamp", "rug", "clock")},
        {
            "material": ("velvet", "jute", "silk", "rattan", "cedar"),
            "feature": ("hypoallergenic", "dimmable", "quilted", "reversible", "weighted"),
            "style": ("nordic", "bohemian", "minimal", "retro"),
            "pattern": ("striped", "floral", "plain", "checked"),
        },
        ("single", "double", "king"),
    ),
    PlainDomain(
        "outdoor",
        {"camping": ("tent", "backpack", "lantern"), "sports": ("helmet", "gloves", "sneakers")},
        {
            "material": ("nylon", "mesh", "leather", "canvas", "rubber"),
            "feature": ("lightweight", "reflective", "padded", "ventilated", "durable"),
            "style": ("rugged", "tactical", "sleek", "urban"),
            "season": ("summer", "winter", "autumn", "spring"),
        },
        ("junior", "adult", "senior"),
    ),
)

_TRIVIA = (
    "keeps two cats", "cooks on sundays", "reads long novels", "lives near a park", "plays chess",
    "rides a bike", "hosts small dinners", "likes old films", "grows tomatoes", "travels by train",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TaskText:
    """What a request and its persona must say.

    Attributes:
        noun: head noun of the wanted product.
        asked: attribute values that the short request names.
        brand: wanted brand, a soft constraint that only the persona names; ``None`` when any brand will do.
        options: wanted axis → value; ``color`` is named in the request, ``size`` only in the persona.
        budget_kind: ``about``, ``hard`` or ``none``.
        budget: the number that is written.
        conflict: the persona also holds a preference that the request overrides.
    """

    noun: str
    asked: tuple[str, ...]
    brand: str | None
    options: Mapping[str, str]
    budget_kind: str
    budget: int
    conflict: bool


_OPENINGS = ("Find a", "I need a", "Buy a", "Looking for a", "Get me a", "Please find a")
_ABOUT = ("budget about ${}", "around ${}", "roughly ${}")
_HARD = ("under ${}", "at most ${}", "no more than ${}")


def write_request(text: TaskText, seed: int, number: int) -> tuple[str, str, str]:
    """Return the full instruction, the short request, and the persona document."""

    def pick(name: str, options: tuple[str, ...]) -> str:
        return options[int(uniform(seed, "request", name, number) * len(options))]

    opening = pick("opening", _OPENINGS)
    color = [f"in {text.options['color']}"] if "color" in text.options else []
    money = {"about": [pick("about", _ABOUT)], "hard": [pick("hard", _HARD)], "none": []}[text.budget_kind]
    budget = [phrase.format(text.budget) for phrase in money]
    simple = ", ".join([" ".join([opening, *text.asked, text.noun, *color]), *budget]) + "."
    size = [f"size {text.options['size']}"] if "size" in text.options else []
    brand = [text.brand] if text.brand else []
    full = ", ".join([" ".join([opening, *brand, *text.asked, text.noun, *color]), *size, *budget]) + "."
    return full, simple, _persona(text, seed, number)


def _persona(text: TaskText, seed: int, number: int) -> str:
    """Two to four lines that matter or do not, in a drawn order."""
    lines = [f"likes {text.brand}"] if text.brand else []
    if "size" in text.options:
        lines.append(f"wears {text.options['size']}")
    if text.conflict:
        lines.append(f"often picks {_other_color(text, seed, number)}")
    trivia = shuffled(_TRIVIA, seed, "trivia", number)
    lines += trivia[: 1 + int(uniform(seed, "trivia-count", number) * 2)]
    return "Profile: " + "; ".join(shuffled(lines, seed, "persona-order", number)) + "."


def _other_color(text: TaskText, seed: int, number: int) -> str:
    others = [color for color in COLORS if color != text.options.get("color")]
    return others[int(uniform(seed, "conflict-color", number) * len(others))]


TRAP_RATE = 0.30
CONFLICT_RATE = 0.25


@dataclass(frozen=True, slots=True)
class PlainPreset:
    """Size of a world: head nouns, products per head noun, tasks."""

    types: int
    per_type: int
    tasks: int


PRESETS = {"tiny": PlainPreset(12, 10, 60), "small": PlainPreset(24, 60, 1200)}


def generate(preset: str, seed: int) -> tuple[Catalogue, tuple[ShopTask, ...]]:
    """Return the catalogue and the tasks (splits not yet assigned).

    Raises:
        ConfigError: for an unknown preset.
    """
    if preset not in PRESETS:
        raise ConfigError(f"unknown ShopWorld preset {preset!r}; choose one of {', '.join(PRESETS)}")
    size = PRESETS[preset]
    nouns = [(domain, aisle, noun) for domain in DOMAINS for aisle in domain.aisles for noun in domain.aisles[aisle]]
    keep = set(shuffled([noun for *_, noun in nouns], seed, "types")[: size.types])
    kept = [entry for entry in nouns if entry[2] in keep]
    ids = _product_ids(seed)
    products = [p for entry in kept for p in _family(seed, entry, list(itertools.islice(ids, size.per_type)))]
    catalogue = Catalogue(products)
    order = shuffled([product.id for product in products], seed, "targets")
    targets = itertools.islice(itertools.cycle(order), size.tasks)
    return catalogue, tuple(_task(seed, i, catalogue.by_id[target]) for i, target in enumerate(targets))


def _product_ids(seed: int) -> Iterator[str]:
    """Yield distinct ids, a letter and four digits each."""
    seen: set[str] = set()
    for number in itertools.count():
        draw = int(uniform(seed, "product-id", number) * 160_000)
        product_id = f"{'bcdfghkmpqrtvwxz'[draw // 10_000]}{draw % 10_000:04d}"
        if product_id not in seen:
            seen.add(product_id)
            yield product_id


def _pick(options: Sequence[str], seed: int, *where: str | int) -> str:
    return options[int(uniform(seed, *where) * len(options))]


def _family(seed: int, entry: tuple[PlainDomain, str, str], ids: list[str]) -> list[Product]:
    """Near-duplicates of one head noun; a price trap is a dearer twin of the product before it."""
    domain, aisle, noun = entry
    products: list[Product] = []
    for k, product_id in enumerate(ids):
        where = ("product", noun, k)
        if products and uniform(seed, "trap", *where) < TRAP_RATE:
            products.append(_trap(products[-1], product_id, seed))
            continue
        brand = _pick(BRANDS, seed, "brand", *where)
        facets = [_pick(values, seed, name, *where) for name, values in domain.facets.items()]
        base = 10.0 + 5 * int(uniform(seed, "price", *where) * 17)
        title = " ".join([brand, *facets[:3], noun])
        bullets = (f"a {facets[3]} {noun} for every day",)
        axes = _axes(domain, base, seed, where)
        category = (domain.name, aisle, noun)
        products.append(Product(product_id, title, brand, category, tuple(facets), bullets, base, axes))
    return products


def _trap(twin: Product, product_id: str, seed: int) -> Product:
    """The same description at a price beyond the twin's likely budget."""
    factor = 1.6 + uniform(seed, "trap-factor", product_id)
    axes = {
        axis: tuple(replace(v, price=None if v.price is None else round(v.price * factor)) for v in values)
        for axis, values in twin.axes.items()
    }
    return replace(twin, id=product_id, price=float(round(twin.price * factor)), axes=axes)


def _axes(
    domain: PlainDomain, base: float, seed: int, where: tuple[str, str, int]
) -> dict[str, tuple[OptionValue, ...]]:
    """One axis in 74 % of products, two in 26 %; a size axis varies the price in half of them."""
    draw = uniform(seed, "axes", *where)
    axes: dict[str, tuple[OptionValue, ...]] = {}
    if draw < 0.37 or draw >= 0.74:
        colors = shuffled(COLORS, seed, "colors", *where)[:3]
        axes["color"] = tuple(OptionValue(color) for color in colors)
    if draw >= 0.37:
        varies = uniform(seed, "price-axis", *where) < 0.5
        sizes = shuffled(domain.sizes, seed, "sizes", *where)
        step = {size: 4.0 * i for i, size in enumerate(domain.sizes)}
        axes["size"] = tuple(OptionValue(s, base + step[s] if varies else None) for s in sizes)
    return axes


def _task(seed: int, number: int, product: Product) -> ShopTask:
    where = ("task", number)
    facets = shuffled(product.attributes[:3], seed, "facets", *where)
    asked = facets[: 1 + int(uniform(seed, "asked", *where) * 2)]
    wants_brand = uniform(seed, "wants-brand", *where) < 0.6
    options = {axis: _pick([v.value for v in values], seed, axis, *where) for axis, values in product.axes.items()}
    budget_kind = _budget_kind(uniform(seed, "budget", *where))
    price = product.price_of(options)
    margin = 1.0 + 0.15 * uniform(seed, "margin", *where)
    text = TaskText(
        noun=product.category[-1],
        asked=tuple(asked),
        brand=product.brand if wants_brand else None,
        options=options,
        budget_kind=budget_kind,
        budget=round(price * margin / (1.1 if budget_kind == "about" else 1.0) + 0.5),
        conflict=uniform(seed, "conflict", *where) < CONFLICT_RATE,
    )
    instruction, request, persona = write_request(text, seed, number)
    budget, stated = budget_of(instruction)
    attributes = (*asked, product.brand) if wants_brand else tuple(asked)
    goal = Goal(attributes, options, budget, product.id, product.title, product.category, stated)
    features = {
        "domain": product.category[0],
        "soft": str(int(wants_brand) + int("size" in options)),
        "axes": str(len(options)),
        "budget": budget_kind,
        "conflict": str(text.conflict),
    }
    return ShopTask(f"shop-{number:05d}", instruction, request, persona, f"user-{number // 2:05d}", goal, features)


def _budget_kind(draw: float) -> str:
    return "about" if draw < 0.61 else "hard" if draw < 0.96 else "none"
