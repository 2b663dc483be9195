"""The words a generated shop is made of: domains, product types, facets, option values, brands, persona trivia.

Every word is a single token of lower-case letters, so that a search matches it exactly or not at all.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Domain:
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
    Domain(
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
    Domain(
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
    Domain(
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
    Domain(
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

TRIVIA = (
    "keeps two cats", "cooks on sundays", "reads long novels", "lives near a park", "plays chess",
    "rides a bike", "hosts small dinners", "likes old films", "grows tomatoes", "travels by train",
)  # fmt: skip
